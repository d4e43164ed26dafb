package template

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/infinirl/infinirl/chat"
)

// hostile are templates that would not end, or would fill the memory.
var hostile = map[string]string{
	// lists and mappings that contain themselves
	"{% set x = [] %}{% set _ = x.append(x) %}{{ x }}":                                                      errNested.Error(),
	"{% set x = [] %}{% set _ = x.append(x) %}{{ x | tojson }}":                                             errNested.Error(),
	"{% set x = [] %}{% set y = [x] %}{% set _ = x.append(y) %}{{ x == y }}":                                errNested.Error(),
	"{% set x = [] %}{% set _ = x.append(x) %}{{ [x] in x or x in [[[x]]] }}":                               "",
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}":                                                errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me | string }}":                                 errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns | join(',') }}":                                    "",
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ 'a' ~ ns }}":                                          errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ {ns: 1} }}":                                           errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns() }}":                                              "which is not a function",
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ raise_exception(ns) }}":                               errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ [ns, ns] | unique }}":                                 errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ [ns] | select('eq', ns) | list }}":                    errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{% call namespace(a=ns) %}{% endcall %}":                 errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.get(ns) }}":                                        errNested.Error(),
	"{% set ns = namespace() %}{% set ns.me = ns %}{{ '{}'.format(ns) }}":                                   errNested.Error(),
	"{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}": errNested.Error(),
	// lists that hold another twice, over and over: 2^60 items
	"{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}":                                              errWork.Error(),
	"{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}":                                     errWork.Error(),
	"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}":    errWork.Error(),
	"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x is eq ns.y }}": errWork.Error(),
	// texts and lists that grow
	"{{ 'a' * 100000000000 }}":           "MB of text",
	"{{ 100000000000 * 'a' }}":           "MB of text",
	"{{ [1, 2] * 9223372036854775807 }}": "MB of text",
	"{{ 'ab' * 9223372036854775807 }}":   "MB of text",
	"{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}":                   "MB of text",
	"{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}":                   "MB of text",
	"{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}":                   "MB of text",
	"{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}": "MB of text",
	"{% set ns = namespace(s='aa') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('a', 'aaaa') %}{% endfor %}":    "MB of text",
	"{% set s = 'a' * 1000000 %}{{ s | replace('a', s) }}":                                                               "MB of text",
	"{% set s = 'a' * 1000000 %}{{ s | replace('', s) }}":                                                                "MB of text",
	"{% set s = 'a' * 1000000 %}{{ s | list | join(s) }}":                                                                "MB of text",
	"{% set s = 'a' * 1000000 %}{{ s.join(s | list) }}":                                                                  "MB of text",
	"{% set s = 'a' * 1000000 %}{{ ('{0}' * 1000000).format(s) }}":                                                       "MB of text",
	"{{ ('a\n' * 1000000) | indent(1000000) }}":                                                                          "MB of text",
	"{{ ('a\n' * 1000000) | indent('a' * 1000000) }}":                                                                    "MB of text",
	"{{ 'a' | indent(2000000000, true) }}":                                                                               "MB of text",
	"{{ 'a' | indent(9223372036854775807, true) }}":                                                                      "indent: width",
	"{{ range(1000) | list | tojson(indent='a' * 10000000) }}":                                                           "MB of text",
	"{{ range(1000) | list | tojson(separators=['a' * 1000000, '']) }}":                                                  "MB of text",
	"{{ ('<' * 10000000) | escape | escape | escape | escape }}":                                                         "MB of text",
	"{{ ('a' * 10000000) | list }}":                                                                                      "MB of text",
	"{% for c in 'a' * 10000000 %}{% endfor %}":                                                                          "MB of text",
	"{{ ('a ' * 10000000).split() }}":                                                                                    "MB of text",
	"{{ 'a'.center(100000000000) }}":                                                                                     "no method",
	"{{ 'a' | center(100000000000) }}":                                                                                   "unknown filter",
	"{{ '%1000000000d' | format(1) }}":                                                                                   "unknown filter",
	"{{ '%1000000000d' % 1 }}":                                                                                           "want numbers",
	"{{ '{:1000000000}'.format(1) }}":                                                                                    "str.format",
	"{{ 10 ** 100000000 }}":                                                                                              "larger than 64 bits",
	"{{ 2 ** 9223372036854775807 }}":                                                                                     "larger than 64 bits",
	"{{ range(0, 9223372036854775807, 9223372036854775807) | length }}":                                                  "",
	"{{ range(10 ** 12) }}":                                                                                              errRange.Error(),
	"{% for i in range(1000000) %}{{ 'a' * 1000 }}{% endfor %}":                                                          "MB of text",
	"{% for i in range(1000000) %}" + strings.Repeat("a", 1000) + "{% endfor %}":                                         "MB of text",
	"{% for i in range(1000000) %}{% set x = [" + strings.Repeat("1, ", 1000) + "] %}{% endfor %}":                       "MB of text",
	"{% set ns = namespace(a=[]) %}{% for i in range(1000000) %}{% for j in range(1000) %}{% set _ = ns.a.append(i) %}{% endfor %}{% endfor %}": "",
	// time
	"{% for i in range(1000000) %}{% if " + strings.Repeat("x or ", 150) + "x %}{% endif %}{% endfor %}":                                  errWork.Error(),
	"{% for i in range(1000000) %}" + strings.Repeat("{% if x %}{% endif %}", 1000) + "{% endfor %}":                                      errWork.Error(),
	"{% set s = 'é' * 1000000 %}{% for i in range(1000000) %}{% set x = s[999999] %}{% endfor %}":                                         errWork.Error(),
	"{% set s = 'é' * 1000000 %}{% for i in range(1000000) %}{% set x = s[1:2] %}{% endfor %}":                                            "MB of text",
	"{% set s = 'a' * 1000000 %}{% for i in range(1000000) %}{% set x = s is upper %}{% endfor %}":                                        errWork.Error(),
	"{% set s = 'a' * 1000000 %}{% for i in range(1000000) %}{% set x = s in s %}{% endfor %}":                                            errWork.Error(),
	"{% set s = range(100000) | list %}{% for i in s %}{% set x = -1 in s %}{% endfor %}":                                                 errWork.Error(),
	"{% set s = range(100000) | list %}{% for i in s %}{% set x = s | max %}{% endfor %}":                                                 "MB of text",
	"{% set s = range(100000) | list %}{% for i in s %}{% set _ = s.insert(0, 1) %}{% endfor %}":                                          errWork.Error(),
	"{% set s = 'a' * 1000000 %}{{ ([s] * 100000) | sort | length }}":                                                                     "MB of text",
	"{% set s = 'a' * 1000000 %}{% for i in range(1000000) %}{% set x = s < s %}{% endfor %}":                                             errWork.Error(),
	"{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}":                                                                                  errDepth.Error(),
	"{% macro m() %}{% set ns.f = caller %}{{ caller() }}{% endmacro %}{% set ns = namespace() %}{% call m() %}{{ ns.f() }}{% endcall %}": errDepth.Error(),
	"{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}":                                                                   errDepth.Error(),
	// compiling
	"{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}":   errHeight.Error(),
	"{{ " + strings.Repeat("[", 400000) + " }}":                                       errHeight.Error(),
	"{{ " + strings.Repeat("{1:", 100000) + "1" + strings.Repeat("}", 100000) + " }}": errHeight.Error(),
	"{{ " + strings.Repeat("not ", 200000) + "1 }}":                                   errHeight.Error(),
	"{{ " + strings.Repeat("- ", 400000) + "1 }}":                                     errHeight.Error(),
	"{{ " + strings.Repeat("1 - ", 200000) + "1 }}":                                   errHeight.Error(),
	"{{ " + strings.Repeat("1 if 1 else ", 50000) + "1 }}":                            errHeight.Error(),
	"{{ " + strings.Repeat("a and ", 150000) + "1 }}":                                 errHeight.Error(),
	"{{ a" + strings.Repeat(".a", 400000) + " }}":                                     errHeight.Error(),
	"{{ a" + strings.Repeat("[a", 400000) + " }}":                                     errHeight.Error(),
	"{{ a" + strings.Repeat("(a", 400000) + " }}":                                     errHeight.Error(),
	"{{ a" + strings.Repeat("|a", 400000) + " }}":                                     errHeight.Error(),
	"{{ a" + strings.Repeat(" is a", 150000) + " }}":                                  errHeight.Error(),
	"{{ " + strings.Repeat("a + ", 200000) + "1 }}":                                   "want numbers",
	strings.Repeat("{% if a %}", 100000):                                              "blocks are inside each other",
	strings.Repeat("{% macro a() %}", 60000):                                          "blocks are inside each other",
	strings.Repeat("{% set a %}", 90000):                                              "blocks are inside each other",
	strings.Repeat("{% if a %}{% endif %}", 45000):                                    "",
	strings.Repeat("{{ a }}", 100000):                                                 "",
	"{% raw %}" + strings.Repeat("{#", 300000) + "#}{% endraw %}":                     "",
	strings.Repeat("{#", 300000):                                                      "is not closed",
	strings.Repeat("a", maxSource+1):                                                  "bytes: want at most",
}

// Every template above ends in one line, soon and in little memory.
func TestBounds(t *testing.T) {
	var before, after runtime.MemStats
	for source, want := range hostile {
		runtime.ReadMemStats(&before)
		start := time.Now()
		compiled, err := Compile(source)
		if err == nil {
			_, err = compiled.Render([]chat.Message{{Role: chat.User, Content: "hi"}}, Options{})
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		switch {
		case want == "" && err != nil && !isBound(err):
			t.Errorf("%.100q: error %v", source, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.100q: error %.200v, want %q", source, err, want)
		case err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1200 || !strings.HasPrefix(err.Error(), "chat template: ")):
			t.Errorf("%.100q: error %.300q", source, err)
		}
		// What is taken and given back again counts in TotalAlloc, too.
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<30 || after.HeapSys > 4<<30 {
			t.Errorf("%.100q: %d MB of memory", source, taken>>20)
		}
		if took > 30*time.Second {
			t.Errorf("%.100q: took %v", source, took)
		}
		if testing.Verbose() {
			t.Logf("%8v %6d MB  %.80q %.80v", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, source, err)
		}
	}
}

func isBound(err error) bool {
	for _, text := range []string{"MB of text", errWork.Error(), errSteps.Error(), errNested.Error(), errDepth.Error(), errRange.Error(), errHeight.Error()} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
