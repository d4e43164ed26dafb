package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// usageError is an error of the command line in the user's words, with the way to help.
func usageError(err error) error {
	return badInput(fmt.Errorf("%s (see %s --help)", inWords(err), commandName(err)))
}

// commandName is the command that could not be parsed, as it is called.
func commandName(err error) string {
	if parse := (*kong.ParseError)(nil); errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			return node.FullPath()
		}
	}
	return "infinirl"
}

// kongMessages are the messages of the parser that name types of Go or say little, and
// what is said instead. $1 is the flag or argument.
var kongMessages = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`^(\S+): expected \w+ value but got "EOL" .*`), `$1: the value is missing`},
	{regexp.MustCompile(`^(\S+): missing value, expecting .*`), `$1: the value is missing`},
	{regexp.MustCompile(`^(\S+): expected uint value but got ("-[\d.]+") .*`), `$1: $2: want a whole number of 0 or more`},
	{regexp.MustCompile(`^(\S+): expected \w+ value but got "(-[^"]*)" .*`), `$1: a value that begins with a dash is written $1=$2`},
	{regexp.MustCompile(`^(\S+): expected a valid 64 bit uint but got ("\d+").*`), `$1: $2: want a whole number of at most 18446744073709551615`},
	{regexp.MustCompile(`^(\S+): expected a valid 64 bit uint but got (".*").*`), `$1: $2: want a whole number of 0 or more`},
	{regexp.MustCompile(`^(\S+): expected a valid 64 bit int but got ("[-+]?\d{19,}").*`), `$1: $2: want a whole number of at most 9223372036854775807`},
	{regexp.MustCompile(`^(\S+): expected a(?: valid 64 bit|n) int but got (".*?")(?: \(.*\))?$`), `$1: $2: want a whole number`},
	{regexp.MustCompile(`^(\S+): expected a float but got (".*?")(?: \(.*\))?$`), `$1: $2: want a number`},
	{regexp.MustCompile(`^(\S+): bool value must be .* but got (".*")$`), `$1: $2: want true or false`},
	{regexp.MustCompile(`^(\S+) must be one of (.*) but got (".*")$`), `$1: $3: want one of $2`},
	{regexp.MustCompile(`^expected one of (".*)$`), `which command? Want one of $1`},
	{regexp.MustCompile(`^expected "<(\w+)>(?: \.\.\.)?"$`), `the <$1> is missing`},
}

// inWords is the parser's message without what only its makers know.
func inWords(err error) string {
	message := err.Error()
	for _, m := range kongMessages {
		if at := m.from.FindStringSubmatchIndex(message); at != nil {
			message = string(m.from.ExpandString(nil, m.to, message, at))
			break
		}
	}
	message = bracketed.ReplaceAllString(message, "$1: ")
	return strings.ReplaceAll(message, `","`, `", "`)
}

// bracketed is an argument as the parser names it in front of what is wrong with it.
var bracketed = regexp.MustCompile(`^\[?<(\w+)>(?: \.\.\.)?\]?: `)

// placeholders gives numbers a placeholder of one letter: kong's own are types of Go.
func placeholders(node *kong.Node) {
	for _, flag := range node.Flags {
		if flag.PlaceHolder == "" && !flag.HasDefault && numeric(flag.Value) {
			flag.PlaceHolder = "N"
		}
	}
	for _, child := range node.Children {
		placeholders(child)
	}
}
