package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"madeira/jobs"
)

// The part of JUnit's report that Jenkins and GitLab both read. They show one
// failure for each test case, so all problems of a file are in it.
type (
	junitReport struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     int         `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    int           `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes one test case for each file, which fails when the file has a
// problem. Warnings are what the test case has printed.
func writeJUnit(w io.Writer, f findings) error {
	const name = "madeira validate"
	suite := junitSuite{Name: name, Tests: len(f.files)}
	for _, file := range f.files {
		wrong, warnings := f.of(file)
		c := junitCase{Class: name, Name: file, File: file, Output: problemLines(warnings)}
		if len(wrong) > 0 {
			suite.Failures++
			c.Line = wrong[0].Line
			c.Failure = &junitFailure{Message: wrong[0].String(), Type: wrong[0].Code, Text: problemLines(wrong)}
			if more := len(wrong) - 1; more > 0 {
				c.Failure.Message += fmt.Sprintf(" (and %d more)", more)
			}
		}
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(junitReport{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func problemLines(problems []jobs.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}
