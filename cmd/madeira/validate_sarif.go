package main

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"madeira/jobs"
)

// The part of SARIF 2.1.0 that a list of problems needs.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Full  sarifText `json:"fullDescription"`
		Help  sarifText `json:"help"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
)

// writeSARIF writes one run with every rule there is, so that a rule can be looked
// up whether or not it was broken.
func writeSARIF(w io.Writer, f findings) error {
	driver := sarifDriver{Name: "madeira", Version: buildVersion()}
	index := map[string]int{}
	for _, c := range jobs.Codes() {
		first, _, _ := strings.Cut(c.Meaning, ". ")
		index[c.Name] = len(driver.Rules)
		driver.Rules = append(driver.Rules, sarifRule{ID: c.Name,
			Short: sarifText{strings.TrimSuffix(first, ".") + "."}, Full: sarifText{c.Meaning}, Help: sarifText{c.Meaning}})
	}
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	for _, p := range f.problems {
		at, known := index[p.Code]
		if !known {
			at = -1 // says that there is no description
		}
		level := "warning"
		if p.IsError() {
			level = "error"
		}
		run.Results = append(run.Results, sarifResult{RuleID: p.Code, RuleIndex: at, Level: level,
			Message: sarifText{p.Message}, Locations: []sarifLocation{locate(p)}})
	}
	run.Tool.Driver = driver
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

// locate returns the place of a problem. A file that could not be read has no lines.
func locate(p jobs.Problem) sarifLocation {
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{URI: uri(p.File)}}}
	if p.Line > 0 {
		l.Physical.Region = &sarifRegion{Line: p.Line, Column: max(p.Column, 1)}
	}
	if p.Path != "" {
		l.Logical = []sarifLogical{{p.Path}}
	}
	return l
}

// uri returns the address of a file: relative as long as it lies at or below the
// folder of the call, which code scanning takes for the root of the repository.
func uri(file string) string {
	if filepath.IsAbs(file) {
		file = displayPath(file)
	}
	u := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}
