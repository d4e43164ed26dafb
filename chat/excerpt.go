package chat

import "unicode/utf8"

// excerptLength is the number of characters that Excerpt keeps.
const excerptLength = 80

// Excerpt is the start of a text as an error message quotes it: input that is wrong
// may be of any length.
func Excerpt[T ~string](text T) string {
	if len(text) <= excerptLength { // no more characters than bytes
		return string(text)
	}
	end := 0
	for range excerptLength {
		_, size := utf8.DecodeRuneInString(string(text[end:min(len(text), end+utf8.UTFMax)]))
		end += size
	}
	if end == len(text) {
		return string(text)
	}
	return string(text[:end]) + "…"
}
