package bpe

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// FuzzNFC holds nfc against golang.org/x/text where the two must agree: without
// characters newer than the reference's Unicode, and without long rows of marks.
func FuzzNFC(f *testing.F) {
	for _, text := range append(texts,
		"A\u030a\u0323", "\u1100\u1161\u11a8\u11a8", "\uac00\u11a8", "\u09c7\u09be", "\u0301a", "a\u0345\u0301\u0300", "\u2126\u212b", "q\u0307\u0323\u0307",
		"\u0958\u0f43\u0fb2\u0f71\u0f80", "\U0001d15e\U0002f81a",
	) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = validUTF8(text)
		got := nfc(text)
		if again := nfc(got); again != got {
			t.Errorf("nfc(%q) = %q, and of that %q", text, got, again)
		}
		marks := 0
		for _, r := range norm.NFD.String(text) {
			if inert(r) {
				return
			}
			if marks++; norm.NFD.PropertiesString(string(r)).CCC() == 0 {
				marks = 0
			}
			if marks > 20 {
				return
			}
		}
		if want := norm.NFC.String(text); got != want {
			t.Errorf("nfc(%q) = %q, want %q", text, got, want)
		}
	})
}

// TestNFCLikeTheReference pins where the reference differs from golang.org/x/text.
func TestNFCLikeTheReference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		// More than 30 marks: no U+034F put between them.
		{"a" + strings.Repeat("\u0301", 40), "á" + strings.Repeat("\u0301", 39)},
		{"a" + strings.Repeat("\u0301\u0316", 40), "á" + strings.Repeat("\u0316", 40) + strings.Repeat("\u0301", 39)},
		// A mark of Unicode 14, of class 220: neither moves nor lets others past.
		{"a\u0301\u0899", "á\u0899"},
		{"a\u0899\u0301", "a\u0899\u0301"},
		// A composition of Unicode 13.
		{"\U00011935\U00011930", "\U00011935\U00011930"},
	} {
		if got := nfc(c.text); got != c.want {
			t.Errorf("nfc(%+q) = %+q, want %+q", c.text, got, c.want)
		}
	}
}

func TestUnicode10IsOrdered(t *testing.T) {
	t.Parallel()
	for i, in := range unicode10 {
		if in.last < in.first || i > 0 && unicode10[i-1].last >= in.first {
			t.Errorf("%X is out of order", in.first)
		}
	}
}
