package jobs_test

import (
	"io/fs"
	"sync"
	"testing/fstest"
)

// A countingFS counts how often each file is opened.
type countingFS struct {
	fstest.MapFS

	mu    sync.Mutex
	count map[string]int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[name]++
	return c.MapFS.Open(name)
}

func (c *countingFS) opened(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[name]
}
