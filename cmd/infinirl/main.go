// Command infinirl trains agents whose trajectories outgrow the context window.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/infinirl/infinirl/terminal"
)

// commands is the whole command line; each command lives in a file of its name.
type commands struct {
	Version kong.VersionFlag `help:"Print the version."`

	Train     trainCommand     `cmd:"" help:"Train an agent past its context window."`
	Pretrain  pretrainCommand  `cmd:"" help:"Make a base model by cloning a demonstrator."`
	Eval      evalCommand      `cmd:"" help:"Play unseen tasks with a model."`
	Ablate    ablateCommand    `cmd:"" help:"Compare ways to assign credit."`
	Config    configCommand    `cmd:"" help:"Print the configuration."`
	Advantage advantageCommand `cmd:"" help:"Compute advantages and returns of a batch."`
	Batch     batchCommand     `cmd:"" help:"Look at, convert and check batches."`
	Condense  condenseCommand  `cmd:"" help:"Cut recorded runs into segments that fit a context window."`
	Replay    replayCommand    `cmd:"" help:"Derive prompts again from log and record, and compare."`

	Completion completionCommand `cmd:"" help:"Print what makes a shell complete commands, flags and their values."`
}

// inputError marks bad usage and bad input: exit status 2 instead of 1.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// badInput marks err as the user's to mend; nil stays nil.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// streams are the process's three standard streams, replaced in tests.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// tell writes a message to standard error, after the name of the program.
func (s streams) tell(style terminal.Style, message string) {
	// A name of the input may hold anything: a line end in it must not begin a message of
	// its own, nor a control character reach a terminal through a file.
	message = strings.ReplaceAll(terminal.Quote(message), "\n", `\n`)
	terminal.Print(s.err, terminal.Line{{Text: "infinirl: ", Style: style}, {Text: message}})
}

// warn writes what the user should know and may not expect.
func (s streams) warn(format string, args ...any) {
	s.tell(terminal.Yellow, fmt.Sprintf("warning: "+format, args...))
}

// note writes what was done.
func (s streams) note(format string, args ...any) {
	s.tell(terminal.Plain, fmt.Sprintf(format, args...))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	std := streams{os.Stdin, terminal.Open(os.Stdout), terminal.Open(os.Stderr)}
	code := run(ctx, os.Args[1:], std)
	stop()
	for _, w := range []io.Writer{std.out, std.err} {
		if screen, ok := w.(*terminal.Screen); ok {
			screen.Flush()
		}
	}
	os.Exit(code)
}

// run parses and executes one command line and returns the exit status:
// 0 success, 1 failure, 2 bad usage or bad input.
func run(ctx context.Context, args []string, std streams) int {
	var cli commands
	exit := -1
	help := &checkedWriter{w: std.out}
	parser, err := kong.New(&cli,
		kong.Name("infinirl"),
		kong.Description("Reinforcement learning for agents whose trajectories outgrow the context window."),
		kong.Vars{"version": "infinirl " + version()},
		kong.Writers(help, std.err),
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)
	if err != nil {
		panic(err) // the command structs above are wrong
	}
	placeholders(parser.Model.Node)
	if len(args) > 0 && args[0] == completeWord {
		return printCandidates(std.out, parser.Model, args[1:])
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	switch {
	case help.err != nil:
		err = help.err
	case exit >= 0: // --help has printed and asked to leave
		return exit
	case err == nil:
		err = command.Run()
	default:
		err = usageError(err)
	}
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) {
		std.tell(terminal.Yellow, "interrupted")
		return 1
	}
	std.tell(terminal.Red, shortened(err.Error()))
	if bad := (inputError{}); errors.As(err, &bad) {
		return 2
	}
	return 1
}

// shortened cuts the middle out of a message that quotes more input than anybody reads.
func shortened(message string) string {
	const head, tail = 1500, 400
	if len(message) <= head+tail {
		return message
	}
	return strings.ToValidUTF8(message[:head], "") + " … " + strings.ToValidUTF8(message[len(message)-tail:], "")
}

// version is that of the module, as the build was told it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return strings.Trim(info.Main.Version, "()")
	}
	return "devel"
}

// checkedWriter keeps the first error, of which kong tells nothing.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}
