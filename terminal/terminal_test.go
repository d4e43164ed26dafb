//go:build unix

package terminal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"
)

// onScreen returns what a terminal of some columns gets from use.
func onScreen(t *testing.T, columns int, use func(w io.Writer)) string {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	defer master.Close()
	if err := pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // ends in an error when the other side is closed
		shown <- string(text)
	}()
	use(Open(slave))
	slave.Close()
	return <-shown
}

// environment sets what a terminal goes by.
func environment(t *testing.T, term, noColor, columns string) {
	t.Setenv("TERM", term)
	t.Setenv("NO_COLOR", noColor)
	t.Setenv("COLUMNS", columns)
}

func TestScreenQuotesControls(t *testing.T) {
	environment(t, "xterm", "", "")
	got := onScreen(t, 80, func(w io.Writer) {
		io.WriteString(w, "a\x1b]0;title\x07b\r\x7f\u009b2J\u202e\xff é\tü\n")
		io.WriteString(w, "\xc3")         // half of a character,
		io.WriteString(w, "\xa9\xe2\x82") // its other half, and the start of one that never ends
		w.(*Screen).Flush()
	})
	if want := "a\\x1b]0;title\\ab\\r\\x7f\\u009b2J\\u202e\\xff é\tü\r\né\\xe2\\x82"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStylesAndStatus(t *testing.T) {
	show := func(w io.Writer) {
		Print(w, Line{{"bad: ", Red}, {"\x1b[5mblink", Plain}, {"\x1b", Green}})
		if s, ok := w.(*Screen); ok {
			s.Status("a long status \x1b")
			s.Status("done")
			s.ClearStatus()
			s.ClearStatus()
		}
	}
	const redraw = "\r\x1b[K"
	for _, test := range []struct{ name, term, noColor, columns, want string }{
		{"colours", "xterm", "", "", "\x1b[31mbad: \x1b[0m\\x1b[5mblink\x1b[32m\\x1b\x1b[0m\r\n" + redraw + "a long st" + redraw + "done" + redraw},
		{"no colours", "xterm", "1", "", "bad: \\x1b[5mblink\\x1b\r\n" + redraw + "a long st" + redraw + "done" + redraw},
		{"dumb", "dumb", "", "", "bad: \\x1b[5mblink\\x1b\r\n"},
		{"COLUMNS", "xterm", "1", "5", "bad: \\x1b[5mblink\\x1b\r\n" + redraw + "a lo" + redraw + "done" + redraw},
	} {
		environment(t, test.term, test.noColor, test.columns)
		if got := onScreen(t, 10, show); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	var out bytes.Buffer
	if show(&out); out.String() != "bad: \x1b[5mblink\x1b\n" {
		t.Errorf("no terminal: %q", out.String())
	}
}

func TestWidth(t *testing.T) {
	environment(t, "xterm", "", "")
	onScreen(t, 57, func(w io.Writer) {
		if n := Width(w); n != 57 {
			t.Errorf("a terminal of 57 columns: %d", n)
		}
	})
	if n := Width(&bytes.Buffer{}); n != Columns {
		t.Errorf("no terminal: %d columns", n)
	}
}

// A file, such as /dev/null, is none.
func TestFilesAreNoTerminals(t *testing.T) {
	t.Parallel()
	for _, path := range []string{os.DevNull, filepath.Join(t.TempDir(), "file")} {
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if w := Open(file); w != file {
			t.Errorf("%s is a terminal", path)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table{Header: []string{"rule", "é", "tokens"}}
	table.Add("tool-fifo", "1", "12345678")
	table.Add("ü", "1.25", "")
	var out bytes.Buffer
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	const want = `rule          é    tokens
tool-fifo     1  12345678
ü          1.25          
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Whatever the text and wherever it is cut, no control gets through and no letter is lost.
func FuzzQuote(f *testing.F) {
	f.Add("a\x1b[2Jb\u202e\xff", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		quoted := Quote(text)
		for _, r := range quoted {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e {
				t.Fatalf("%q has %U", quoted, r)
			}
		}
		if !utf8.ValidString(quoted) || Quote(quoted) != quoted {
			t.Fatalf("%q is not clean", quoted)
		}
		for _, r := range text {
			if unicode.IsLetter(r) && !strings.ContainsRune(quoted, r) {
				t.Fatalf("%q lost %q", quoted, r)
			}
		}
	})
}
