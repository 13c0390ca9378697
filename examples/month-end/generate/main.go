// Command generate writes a bill and a ledger of any size in the form of the
// month-end example, with exact totals:
//
//	go run ./examples/month-end/generate -rows 10000000 -dir /tmp/big
//
// The folder then holds all that "madeira run /tmp/big/job.yaml" needs. The same
// seed gives the same files. Nothing is kept in memory.
package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	monthend "madeira/examples/month-end"
)

func main() {
	rows := flag.Int("rows", 1_000_000, "lines of the bill; ten million are about 1 GB")
	seed := flag.Uint64("seed", 1, "the same seed gives the same files")
	every := flag.Int("break-every", 10_000, "plant a break once in so many lines; 0 plants none")
	pack := flag.Bool("gzip", false, "pack the bill")
	dir := flag.String("dir", ".", "folder to write to")
	flag.Parse()
	if err := generate(*dir, options{rows: *rows, seed: *seed, every: *every, pack: *pack}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	rows  int
	seed  uint64
	every int
	pack  bool
}

func generate(dir string, o options) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeJob(dir, o); err != nil {
		return err
	}
	name := "bill.csv"
	if o.pack {
		name += ".gz"
	}
	bill, err := create(filepath.Join(dir, name), o.pack)
	if err != nil {
		return err
	}
	ledger, err := create(filepath.Join(dir, "ledger.csv"), false)
	if err != nil {
		return errors.Join(err, bill.close())
	}
	err = writeBoth(bill, ledger, o)
	return errors.Join(err, bill.close(), ledger.close())
}

// writeJob copies the example's job, which then accepts as many breaks as are planted.
func writeJob(dir string, o options) error {
	for _, name := range []string{"job.yaml", "madeira.yaml"} {
		content, err := monthend.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if name == "job.yaml" {
			content = acceptBreaks(content, o.rows)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // A job is for everybody to read.
			return err
		}
	}
	return nil
}

// A file is written through buffers and keeps the first error.
type file struct {
	*bufio.Writer
	packed *gzip.Writer
	disk   *os.File
	err    error
}

func (f *file) put(text []byte) {
	if f.err == nil {
		_, f.err = f.Write(text)
	}
}

func create(path string, pack bool) (*file, error) {
	disk, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	f := &file{disk: disk}
	var out io.Writer = disk
	if pack {
		f.packed = gzip.NewWriter(disk)
		out = f.packed
	}
	f.Writer = bufio.NewWriterSize(out, 1<<20)
	return f, nil
}

func (f *file) close() error {
	err := f.Flush()
	if f.packed != nil {
		err = errors.Join(err, f.packed.Close())
	}
	return errors.Join(err, f.disk.Close())
}

// Texts of the bill, in its encoding.
type texts struct {
	head, end, pay, refund, success, closed, note []byte
}

func billTexts() texts {
	gb := func(s string) []byte {
		b, err := simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(s))
		if err != nil {
			panic(err) // The texts are constants.
		}
		return b
	}
	return texts{
		head: gb("港付通商户账单明细\r\n商户号：[188800010001]\r\n账单月份：[2026-10]　币种：见明细\r\n导出时间：[2026-11-02 10:12:44]\r\n" +
			"#--------------------账单明细列表--------------------\r\n交易号,商户订单号,类型,状态,币种,金额,手续费,完成时间,备注\r\n"),
		end:     gb("#--------------------账单明细列表结束--------------------\r\n"),
		pay:     gb(",交易,"),
		refund:  gb(",退款,"),
		success: gb("成功"),
		closed:  gb("关闭"),
		note:    gb(",门店订单\r\n"),
	}
}

// A line is one order on both sides.
type line struct {
	n      int
	cents  int64 // in the ledger; negative for a refund
	billed int64 // in the bill
	refund bool
	closed bool
	at     time.Time
}

// start is the first second of the bill's month. The bill is in local time.
var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func writeBoth(bill, ledger *file, o options) error {
	t, random := billTexts(), rand.New(rand.NewPCG(o.seed, 0))
	bill.put(t.head)
	ledger.put([]byte("entry_no,period,order_no,kind,status,ccy,amount,booked_on\n"))
	var payments, refunds int64
	count := 0
	var buffer []byte
	for n := 1; count < o.rows; n++ {
		l := newLine(n, o.rows, random)
		kind := -1
		if o.every > 0 && n%o.every == 0 {
			kind = n / o.every % 5
		}
		inBill, inLedger, twice := plant(&l, kind)
		for range inBill + twice {
			buffer = l.appendBill(buffer[:0], t, count)
			bill.put(buffer)
			count++
			switch {
			case l.refund:
				refunds += l.billed
			case !l.closed:
				payments += l.billed
			}
		}
		if inLedger {
			buffer = l.appendLedger(buffer[:0])
			ledger.put(buffer)
		}
	}
	bill.put(t.end)
	writeTotals(bill, count, payments, refunds)
	return errors.Join(bill.err, ledger.err)
}

// plant makes a line into a break of one of five categories; kind -1 makes none.
func plant(l *line, kind int) (inBill int, inLedger bool, twice int) {
	inBill, inLedger = 1, true
	switch kind {
	case 0:
		inBill = 0 // missing_right
	case 1:
		inLedger = false // missing_left
	case 2:
		l.billed += 10 // amount_mismatch
	case 3:
		twice = 1 // duplicate_right
	case 4:
		l.closed = !l.refund // status_mismatch
	}
	return inBill, inLedger, twice
}

func newLine(n, of int, random *rand.Rand) line {
	l := line{n: n, cents: 1 + random.Int64N(50_000_00), refund: random.IntN(20) == 0}
	if l.refund {
		l.cents = -l.cents
	}
	l.billed = l.cents
	const month = 31 * 24 * 3600
	l.at = start.Add(time.Duration(int64(n-1)*(month-1)/int64(max(of, 1))%month) * time.Second)
	return l
}

func (l line) appendBill(b []byte, t texts, count int) []byte {
	b = append(b, "HP202610"...)
	b = appendPadded(b, int64(count), 12)
	b = append(b, "\t,SO-"...)
	b = appendPadded(b, int64(l.n), 10)
	b = append(b, '\t')
	if l.refund {
		b = append(b, t.refund...)
	} else {
		b = append(b, t.pay...)
	}
	if l.closed {
		b = append(b, t.closed...)
	} else {
		b = append(b, t.success...)
	}
	b = append(b, ",CNY,"...)
	b = appendCents(b, l.billed)
	b = append(b, ',')
	b = appendFee(b, l.billed)
	b = append(b, ',')
	b = l.at.AppendFormat(b, time.DateTime)
	return append(b, t.note...)
}

func (l line) appendLedger(b []byte) []byte {
	b = append(b, "L-"...)
	b = appendPadded(b, int64(l.n), 10)
	b = append(b, ",2026-10,SO-"...)
	b = appendPadded(b, int64(l.n), 10)
	if l.refund {
		b = append(b, ",refund,refunded,CNY,"...)
	} else {
		b = append(b, ",pay,paid,CNY,"...)
	}
	b = appendCents(b, l.cents)
	b = append(b, ',')
	b = l.at.AppendFormat(b, time.DateOnly)
	return append(b, '\n')
}

func appendPadded(b []byte, n int64, width int) []byte {
	digits := strconv.AppendInt(nil, n, 10)
	for range width - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

func appendCents(b []byte, cents int64) []byte {
	if cents < 0 {
		b, cents = append(b, '-'), -cents
	}
	b = strconv.AppendInt(b, cents/100, 10)
	return appendPadded(append(b, '.'), cents%100, 2)
}

// appendFee writes 0.6 % of an amount with five decimals, which is exact.
func appendFee(b []byte, cents int64) []byte {
	fee := cents * 6 // of 1/100,000
	if fee < 0 {
		b, fee = append(b, '-'), -fee
	}
	b = strconv.AppendInt(b, fee/100_000, 10)
	return appendPadded(append(b, '.'), fee%100_000, 5)
}

func writeTotals(bill *file, count int, payments, refunds int64) {
	totals := fmt.Sprintf("#总笔数：%d\r\n#交易总金额（CNY）：%s\r\n#退款总金额（CNY）：%s\r\n", count, appendCents(nil, payments), appendCents(nil, refunds))
	encoded, err := simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(totals))
	if err != nil {
		panic(err) // Its characters are those of the texts above and digits.
	}
	bill.put(encoded)
}
