//go:build !linux

package artifact_test

import "errors"

func mountSmall(string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
