package infinirl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	block    = regexp.MustCompile("(?ms)^```go\n// (\\S+\\.go)\n(.*?)^```$")
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$") // code has no links
	omission = regexp.MustCompile(`(?m)^\s*\.\.\.$`)
	link     = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	ticked   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]+)`")
)

// Every relative link of the documentation leads somewhere, and every test that it
// names exists.
func TestDocumentationIsTrue(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("interop/*/README.md")
	pages = append(append(pages, more...), "README.md", "CHANGELOG.md")
	if len(pages) < 8 {
		t.Fatalf("only %d pages found", len(pages))
	}
	tests := testNames(t)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", page, m[1])
			}
		}
		for _, m := range ticked.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(tests, "func "+m[1]+"(") {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
		if strings.Contains(string(text), "@") && regexp.MustCompile(`@[A-Z_]+@`).Match(text) {
			t.Errorf("%s: a figure is missing", page)
		}
	}
}

// A block of Go that names a file on its first line is in that file, word for word.
// Three dots on a line of their own leave something out.
func TestQuotedCodeIsThere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := map[string]bool{}
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			file, err := os.ReadFile(m[1])
			if err != nil {
				t.Errorf("%s: a block quotes %s: %v", page, m[1], err)
				continue
			}
			quoted[m[1]] = true
			if missing, ok := quotes(string(file), m[2]); !ok {
				t.Errorf("%s: %s does not have, in this order,\n%s", page, m[1], missing)
			}
		}
	}
	examples, err := filepath.Glob("examples/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range examples { // the file that is called as its folder, or main.go
		name := strings.TrimSuffix(filepath.Base(file), ".go")
		if (name == filepath.Base(filepath.Dir(file)) || name == "main") && !quoted[file] {
			t.Errorf("no page quotes %s", file)
		}
	}
}

// quotes tells whether the parts of a block, between lines of three dots, stand in the
// file in their order, and which does not.
func quotes(file, block string) (missing string, ok bool) {
	for _, part := range omission.Split(block, -1) {
		if part = strings.Trim(part, "\n"); part == "" {
			continue
		}
		_, after, found := strings.Cut("\n"+file, "\n"+part+"\n")
		if !found {
			return part, false
		}
		file = after
	}
	return "", true
}

func TestQuotes(t *testing.T) {
	t.Parallel()
	const file = "package a\n\nfunc f() {\n\tg()\n\th()\n}\n"
	for _, test := range []struct {
		block string
		want  bool
	}{
		{"func f() {\n\tg()\n\th()\n}\n", true},
		{"package a\n", true},
		{"package a\n...\n\th()\n}\n", true},
		{"func f() {\n\t...\n\th()\n", true},
		{"func f() {\n\th()\n", false},
		{"\th()\n...\n\tg()\n", false},
		{"g()\n", false},
	} {
		if missing, ok := quotes(file, test.block); ok != test.want {
			t.Errorf("%q: %v, missing %q, want %v", test.block, ok, missing, test.want)
		}
	}
}

// testNames returns the text of all test files.
func testNames(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
