// Package task holds the rows of the engine and the only legal moves between
// their states. It is pure: it imports nothing of Madeira and touches no database.
//
//	           needs met            claim               finished
//	blocked ─────────────▶ pending ───────▶ processing ──────────▶ success
//	   │                    ▲  ▲  ▲            │ │ │
//	   │ condition false,   │  │  └────────────┘ │ └─────────────▶ error
//	   ▼ something failed   │  │  retry, release,│                   │
//	skipped                 │  │  lease lost     ▼                   │
//	                        │  └────────────  waiting                │
//	                        └────────────────────────────────────────┘
//	                                    redrive
//
// Every state but success, error and skipped also leads to cancelled. A redrive
// moves what an error had skipped back to blocked.
//
// A task carries a fence, which grows by one with every claim. Whoever writes to
// a claimed task names the fence it was claimed with; when no row is hit, the
// lease is lost and the result is dropped.
package task
