package corpus

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// punctuation is that of Python's string.punctuation.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// Normalise is that of the evaluation script of SQuAD (Rajpurkar et al., arXiv 1606.05250):
// lower case, without ASCII punctuation, then without the words a, an and the, words apart
// by one space.
func Normalise(text string) string {
	text = cases.Lower(language.Und).String(text)
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(punctuation, r) {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.FieldsFunc(withoutArticles(text), isSpace), " ")
}

// withoutArticles is re.sub(r'\b(a|an|the)\b', ' ', text).
func withoutArticles(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		end := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(text)
		}
		switch word := text[:end]; word {
		case "a", "an", "the":
			out.WriteByte(' ')
		default:
			out.WriteString(word)
		}
		text = text[end:]
		next := strings.IndexFunc(text, isWord)
		if next < 0 {
			next = len(text)
		}
		out.WriteString(text[:next])
		text = text[next:]
	}
	return out.String()
}

// isWord is Python's \w.
func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// isSpace is what Python's str.split splits at.
func isSpace(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' }

// ExactMatch tells whether an answer is one of the right ones, normalised.
func ExactMatch(answer string, right []string) bool {
	answer = Normalise(answer)
	for _, r := range right {
		if answer == Normalise(r) {
			return true
		}
	}
	return false
}

// F1 is the best harmonic mean of precision and recall of the words of an answer over the
// right ones. An answer without words is right if and only if the right one has none.
func F1(answer string, right []string) float64 {
	var best float64
	given := strings.Fields(Normalise(answer))
	for _, r := range right {
		gold := strings.Fields(Normalise(r))
		if len(given) == 0 || len(gold) == 0 {
			if len(given) == len(gold) {
				best = 1
			}
			continue
		}
		left, same := map[string]int{}, 0
		for _, word := range gold {
			left[word]++
		}
		for _, word := range given {
			if left[word] > 0 {
				left[word]--
				same++
			}
		}
		if same > 0 {
			precision, recall := float64(same)/float64(len(given)), float64(same)/float64(len(gold))
			best = max(best, 2*precision*recall/(precision+recall))
		}
	}
	return best
}
