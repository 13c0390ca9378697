// Package monthend embeds the files of this example, which "madeira init" writes.
package monthend

import "embed"

// Files holds the job, its configuration, the ledger and the bill.
//
//go:embed job.yaml madeira.yaml ledger.csv bill.csv.gz
var Files embed.FS
