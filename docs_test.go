package infinirl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	ticked = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]+)`")
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
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
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
