package template

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExpressions compares with what Python's jinja2 made of expressions (see testdata).
func TestExpressions(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("testdata", "expressions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var variables map[string]any
	lines := bufio.NewScanner(f)
	n := 0
	for lines.Scan() {
		var c struct {
			Variables         map[string]any
			Expression, Error string
			Text              *string
		}
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		if c.Variables != nil {
			variables = c.Variables
		}
		got := ""
		compiled, err := Compile("{{ " + c.Expression + " }}")
		if err == nil {
			got, err = compiled.Render(nil, Options{Variables: variables})
		}
		switch {
		case c.Text != nil && (err != nil || got != *c.Text):
			t.Errorf("%s: got %q, %v; want %q", c.Expression, got, err, *c.Text)
		case c.Text == nil && err == nil:
			t.Errorf("%s: got %q, want an error: %s", c.Expression, got, c.Error)
		}
		n++
	}
	if err := lines.Err(); err != nil || n < 500 {
		t.Errorf("%d expressions, %v", n, err)
	}
}
