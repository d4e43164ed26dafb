package bpe

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzScanner holds the scanners against the library's regular expressions.
func FuzzScanner(f *testing.F) {
	type twin struct{ scan, general *pattern }
	var twins []twin
	for _, expression := range []string{patternQwen2, patternLlama3, patternGPT2} {
		scan, err := compile(expression)
		if err != nil || scan.scan == nil {
			f.Fatalf("no scanner for %s (error %v)", expression, err)
		}
		general, err := compileGeneral(expression)
		if err != nil {
			f.Fatal(err)
		}
		twins = append(twins, twin{scan, general})
	}
	for _, text := range append(texts, fixtureText,
		"'s'S'ſ'll'LL'Ll'l'v've'VE'r're're", "a'sb 'd''m", "\r\n \r \t\t\n\u0085\u00a0\u2028 x", "   ", " \u3000a", "\t\ta", " \t!", "  !\n\n\r!\n a",
		"1234567 ٣٤٥٦ Ⅷ½²", "x1y22z333_4444", "ǅʰ中ー々〆", "a\u0301\u200d👨‍👩‍👧", "\u1c89\u1c8a\U00010d4a\U0002ebf0\U000116d0", "\x00\x1c\x1f\v\f",
	) {
		f.Add(text)
	}
	// SmolLM2's: a scanner for two steps.
	var two pretokenizer
	if _, err := two.parse([]byte(`{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false}]}`)); err != nil || two.scan == nil {
		f.Fatalf("no scanner for Digits and GPT-2's pattern (error %v)", err)
	}
	f.Add("a 1  2 \n3\t\t44 's5's x6 !7 ½\u3000\u0663 \u00a0 8")
	f.Fuzz(func(t *testing.T, text string) {
		text = validUTF8(text)
		var got []string
		for start := 0; start < len(text); {
			end := two.scan.next(text, start)
			got, start = append(got, text[start:end]), end
		}
		want, err := two.split(text, true, newDeadline(text))
		if text == "" {
			want = nil
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Digits and GPT-2's pattern of %q: got %q, want %q, error %v", text, got, want, err)
		}
		for _, twin := range twins {
			got, want := spans(t, twin.scan, text), spans(t, twin.general, text)
			if !slices.Equal(got, want) {
				t.Errorf("%s\n of %q: got %v, want %v", twin.general.regexp, text, got, want)
			}
		}
	})
}

// TestClasses counts the characters of each class in Unicode 16, whatever version
// the standard library has.
func TestClasses(t *testing.T) {
	t.Parallel()
	want := map[uint8]int{letter: 141028, number: 1911, space: 23, newline: 2}
	got := make(map[uint8]int)
	for r := range rune(utf8.MaxRune + 1) {
		class := classes().of(r)
		if got[class]++; class != classOf(r) {
			t.Fatalf("%U: the table says %d", r, class)
		}
	}
	for class, n := range want {
		if got[class] != n {
			t.Errorf("class %d has %d characters, want %d", class, got[class], n)
		}
	}
}

// TestPunctuation counts the punctuation of the reference.
func TestPunctuation(t *testing.T) {
	t.Parallel()
	n := 0
	for r := range rune(utf8.MaxRune + 1) {
		if isPunctuation(r) {
			n++
		}
	}
	if n != 726 {
		t.Errorf("%d characters, want 726", n)
	}
}

func TestNewerIsOrdered(t *testing.T) {
	t.Parallel()
	for i, in := range newer {
		if in.last < in.first || i > 0 && newer[i-1].last >= in.first {
			t.Errorf("%X is out of order", in.first)
		}
	}
}
