package parse

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/simplifiedchinese"

	"madeira/jobs/step"
)

// A part is one stream of text in a file: the file itself, or an entry of an archive.
type part struct {
	name string // for messages: the file, and the entry
	open func() (io.ReadCloser, error)
}

// The most an archive's list of entries may hold: reading it takes memory.
const (
	maxEntries   = 10_000
	maxDirectory = 2 << 20 // bytes
)

// An unpacker finds out what a file is by its first bytes, and opens its parts.
type unpacker struct {
	file    step.FileReader
	ref     step.File
	entry   string // pattern of the entries to read; "": the only one
	max     int64  // bytes that may come out of it
	ratio   int64  // bytes that may come out of each packed byte
	packed  countingReader
	written int64 // bytes that came out so far, over all parts
}

func newUnpacker(file step.FileReader, set *settings) *unpacker {
	return &unpacker{
		file: file, ref: set.File, entry: set.Entry,
		max: int64(set.Limits.Unpacked), ratio: set.Limits.Ratio, packed: countingReader{FileReader: file},
	}
}

// parts returns what there is to read, in the order of the entries' names.
func (u *unpacker) parts() ([]part, error) {
	var magic [4]byte
	n, err := u.file.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", u.ref.Name, err)
	}
	kind := archiveKind(magic[:n])
	name := strings.ToLower(u.ref.Name)
	switch {
	case kind == "gzip":
		return []part{{name: u.ref.Name, open: u.gunzip}}, nil
	case kind == "zip":
		return u.entries()
	case n > 0 && strings.HasSuffix(name, ".gz"), n > 0 && strings.HasSuffix(name, ".zip"):
		return nil, step.PermanentCode("archive.corrupt", fmt.Errorf("%s: its name says archive, its first bytes do not; fetch it again or give it the right name", u.ref.Name))
	case u.entry != "" && n > 0:
		return nil, step.PermanentCode("archive.entry", fmt.Errorf("%s: entry %q is asked for, but the file is no zip archive", u.ref.Name, u.entry))
	}
	return []part{{name: u.ref.Name, open: func() (io.ReadCloser, error) { return io.NopCloser(&u.packed), nil }}}, nil
}

// archiveKind returns "gzip", "zip" or "" by the first bytes of a file.
func archiveKind(magic []byte) string {
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		return "gzip"
	case len(magic) >= 4 && magic[0] == 'P' && magic[1] == 'K' && (magic[2] == 3 && magic[3] == 4 || magic[2] == 5 && magic[3] == 6):
		return "zip"
	}
	return ""
}

func (u *unpacker) gunzip() (io.ReadCloser, error) {
	b := &bounded{u: u, name: u.ref.Name, packed: u.packed.count}
	in := bufio.NewReader(&u.packed)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, b.explain(err)
	}
	z.Multistream(false)
	b.r = &members{z: z, in: in}
	return b, nil
}

// errTrailing says that a gzip file goes on behind its last member.
var errTrailing = errors.New("bytes that are no gzip follow its last member")

// members reads a gzip file member by member, to tell one that is cut from bytes
// that do not belong to it.
type members struct {
	z  *gzip.Reader // of one member
	in *bufio.Reader
}

// Close says once more why reading failed, if it did.
func (m *members) Close() error { return m.z.Close() }

// Read reads on in the next member at the end of one.
func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if n > 0 {
			return n, nil // the next call comes here again, with nothing
		}
		next, err := m.in.Peek(2)
		switch {
		case len(next) == 0:
			return 0, err
		case next[0] != 0x1f || len(next) == 2 && next[1] != 0x8b:
			return 0, errTrailing
		}
		if err := m.z.Reset(m.in); err != nil {
			return 0, err
		}
		m.z.Multistream(false)
	}
}

func (u *unpacker) entries() ([]part, error) {
	if err := u.checkDirectory(); err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(&u.packed, u.ref.Size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, step.PermanentCode("archive.corrupt", fmt.Errorf("read the entries of %s: %w", u.ref.Name, err))
	}
	if len(archive.File) > maxEntries {
		return nil, u.tooMuch(u.ref.Name, fmt.Sprintf("it holds %d entries, at most %d are read", len(archive.File), maxEntries))
	}
	files, names := []*zip.File{}, []string{}
	for _, f := range archive.File {
		name := entryName(f)
		if !readable(name) {
			continue
		}
		names = append(names, name)
		if u.entry == "" || matches(u.entry, name) {
			f.Name = name
			files = append(files, f)
		}
	}
	switch {
	case len(archive.File) == 0:
		return nil, step.PermanentCode("archive.entry", fmt.Errorf("%s: the archive holds no file", u.ref.Name))
	case len(names) == 0:
		return nil, step.PermanentCode("archive.entry", fmt.Errorf("%s: the archive holds no file that is read: folders, hidden files of macOS and names that lead out of it are left out", u.ref.Name))
	case len(files) == 0:
		return nil, step.PermanentCode("archive.entry", fmt.Errorf("%s: no entry matches %q; there are %s", u.ref.Name, u.entry, quoted(names)))
	case u.entry == "" && len(files) > 1:
		return nil, step.PermanentCode("archive.entry", fmt.Errorf("%s holds %d files; say which with entry: %s", u.ref.Name, len(files), quoted(names)))
	}
	slices.SortFunc(files, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	parts := make([]part, len(files))
	for i, f := range files {
		parts[i] = part{name: u.ref.Name + ": " + f.Name, open: func() (io.ReadCloser, error) { return u.openEntry(f) }}
	}
	return parts, nil
}

// checkDirectory refuses an archive whose list of entries is larger than any
// honest one, before the list is read into memory.
func (u *unpacker) checkDirectory() error {
	const endSize, locatorSize = 22, 20
	tail := make([]byte, min(u.ref.Size, endSize+locatorSize+1<<16))
	if _, err := u.file.ReadAt(tail, u.ref.Size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", u.ref.Name, err)
	}
	at := strings.LastIndex(string(tail), "PK\x05\x06")
	if at < 0 || len(tail) < at+endSize {
		return step.PermanentCode("archive.corrupt", fmt.Errorf("%s: the end of the zip archive is missing; fetch it again", u.ref.Name))
	}
	offset := int64(binary.LittleEndian.Uint32(tail[at+16:]))
	if offset == 0xFFFFFFFF && at >= locatorSize {
		var end [56]byte
		where := int64(binary.LittleEndian.Uint64(tail[at-locatorSize+8:]))
		if _, err := u.file.ReadAt(end[:], where); err != nil {
			return step.PermanentCode("archive.corrupt", fmt.Errorf("%s: the end of the zip archive is damaged: %w", u.ref.Name, err))
		}
		offset = int64(binary.LittleEndian.Uint64(end[48:]))
	}
	if size := u.ref.Size - offset; size > maxDirectory+1<<16 {
		return u.tooMuch(u.ref.Name, fmt.Sprintf("its list of entries takes %d bytes, at most %d are read", size, maxDirectory))
	}
	return nil
}

// entryName returns the name as text: archives made on a Chinese Windows hold
// GBK without saying so.
func entryName(f *zip.File) string {
	if !utf8.ValidString(f.Name) {
		if name, err := simplifiedchinese.GB18030.NewDecoder().String(f.Name); err == nil {
			return name
		}
	}
	return f.Name
}

// readable leaves out folders, what macOS adds, and names that leave the archive.
func readable(name string) bool {
	slashed := strings.ReplaceAll(name, `\`, "/")
	if strings.HasSuffix(slashed, "/") || strings.HasPrefix(slashed, "/") || strings.HasPrefix(slashed, "__MACOSX/") {
		return false
	}
	base := path.Base(slashed)
	return !slices.Contains(strings.Split(slashed, "/"), "..") && !strings.HasPrefix(base, "._") && base != ".DS_Store"
}

// matches compares with the whole name, or with its last element when the
// pattern has no slash.
func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func (u *unpacker) openEntry(f *zip.File) (io.ReadCloser, error) {
	name := u.ref.Name + ": " + f.Name
	if f.Flags&1 != 0 {
		return nil, step.PermanentCode("archive.encrypted", fmt.Errorf("%s is encrypted with a password; ask for it without one", name))
	}
	b := &bounded{u: u, name: name, fixed: int64(f.CompressedSize64)}
	r, err := f.Open()
	if err != nil {
		return nil, b.explain(err)
	}
	b.r = r
	return b, nil
}

func (u *unpacker) tooMuch(name, why string) error {
	return step.PermanentCode("archive.limit", fmt.Errorf("%s: %s; raise limits if the file is meant to be so", name, why))
}

// bounded passes on what comes out of an archive, up to the limits.
type bounded struct {
	u      *unpacker
	r      io.ReadCloser
	name   string
	packed int64 // where the archive stood when the part was opened
	fixed  int64 // packed size of an entry; 0: what was read since
	out    int64
	failed bool // reading failed, so closing would say the same again
	first  [4]byte
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.out < int64(len(b.first)) {
		copy(b.first[b.out:], p[:n])
	}
	b.out += int64(n)
	b.u.written += int64(n)
	packed := b.fixed
	if packed == 0 {
		packed = b.u.packed.count - b.packed
	}
	switch {
	case b.u.written > b.u.max:
		return 0, b.u.tooMuch(b.name, fmt.Sprintf("more than %d bytes come out of it", b.u.max))
	case b.out > 1<<20 && b.out/b.u.ratio > packed:
		return 0, b.u.tooMuch(b.name, fmt.Sprintf("more than %d bytes come out of each packed byte", b.u.ratio))
	case b.out >= 4 && b.out-int64(n) < 4 && archiveKind(b.first[:]) != "":
		return 0, step.PermanentCode("archive.limit", fmt.Errorf("%s: it is an archive inside an archive; nested archives are not read: unpack it before, or ask for the inner one", b.name))
	case err != nil && !errors.Is(err, io.EOF):
		b.failed = true
		return n, b.explain(err)
	}
	return n, err
}

func (b *bounded) Close() error {
	if err := b.r.Close(); err != nil && !b.failed {
		return fmt.Errorf("close %s: %w", b.name, err)
	}
	return nil
}

// explain tells a damaged archive, which no repetition mends, from a disk that
// cannot be read.
func (b *bounded) explain(err error) error {
	if b.u.packed.err != nil {
		return fmt.Errorf("read %s: %w", b.name, b.u.packed.err)
	}
	var deflate flate.CorruptInputError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the archive ends early")
	case errors.Is(err, errTrailing), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zip.ErrChecksum),
		errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrAlgorithm), errors.As(err, &deflate):
	default:
		if b.fixed != 0 {
			return fmt.Errorf("unpack %s: %w", b.name, err)
		}
	}
	return step.PermanentCode("archive.corrupt", fmt.Errorf("unpack %s: %w; nothing of it is kept, fetch it again", b.name, err))
}

// countingReader counts what is read from the file itself and keeps the error
// that is the file's own.
type countingReader struct {
	step.FileReader
	count int64
	err   error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.FileReader.Read(p)
	c.took(n, err)
	return n, err
}

// ReadAt is what zip archives are read with.
func (c *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.FileReader.ReadAt(p, at)
	c.took(n, err)
	return n, err
}

func (c *countingReader) took(n int, err error) {
	c.count += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
}
