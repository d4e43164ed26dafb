package ablation

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// The chart's measures, in pixels.
const (
	chartWidth, chartHeight = 800, 480
	plotLeft, plotRight     = 70, 780
	plotTop, plotBottom     = 50, 370
	markerRadius            = 4.0
)

// curveStyle is how a method's curve looks. Colours are those of Okabe and Ito, which
// colour-blind people tell apart; dashes and markers do without colours.
type curveStyle struct {
	colour, dash string
	marker       func(x, y float64) string // a path
}

var curveStyles = []curveStyle{
	{"#0072b2", "", circle},
	{"#d55e00", "9 4", square},
	{"#009e73", "2 3", triangle},
	{"#cc79a7", "10 3 2 3", diamond},
	{"#000000", "5 3", cross},
	{"#e69f00", "14 3", circle},
	{"#56b4e9", "1 4", square},
}

func circle(x, y float64) string {
	return fmt.Sprintf("M%.1f %.1fa%[3]g %[3]g 0 1 0 %[4]g 0a%[3]g %[3]g 0 1 0 -%[4]g 0z", x-markerRadius, y, markerRadius, 2*markerRadius)
}

func square(x, y float64) string {
	return fmt.Sprintf("M%.1f %.1fh%[3]gv%[3]gh-%[3]gz", x-markerRadius, y-markerRadius, 2*markerRadius)
}

func triangle(x, y float64) string {
	return fmt.Sprintf("M%.1f %.1fl%g %gh-%gz", x, y-markerRadius-1, markerRadius+1, 2*markerRadius, 2*markerRadius+2)
}

func diamond(x, y float64) string {
	return fmt.Sprintf("M%.1f %.1fl%[3]g %[3]gl-%[3]g %[3]gl-%[3]g -%[3]gz", x, y-markerRadius-1, markerRadius+1)
}

func cross(x, y float64) string {
	return fmt.Sprintf("M%.1f %.1fl%[3]g %[3]gm0 -%[3]gl-%[3]g %[3]g", x-markerRadius, y-markerRadius, 2*markerRadius)
}

// chart draws the mean learning curve of every method as SVG.
func (r *Result) chart(methods []Method) []byte {
	longest := 0
	for _, m := range methods {
		for _, curve := range r.Curves[m.Name] {
			longest = max(longest, len(curve))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	seeds := "1 seed"
	if n := len(r.Seeds); n != 1 {
		seeds = fmt.Sprintf("mean of %d seeds", n)
	}
	text(&out, (plotLeft+plotRight)/2, 28, "middle", `font-size="16"`, r.Env+": success of rollouts by step, "+seeds)
	drawAxes(&out, longest)
	for k, m := range methods {
		drawCurve(&out, meanCurve(r.Curves[m.Name], longest), longest, curveStyles[k%len(curveStyles)])
	}
	drawLegend(&out, methods)
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// place is where a step, from 1, and a success stand in the plot.
func place(step, steps int, success float64) (x, y float64) {
	x = (plotLeft + plotRight) / 2
	if steps > 1 {
		x = plotLeft + float64(plotRight-plotLeft)*float64(step-1)/float64(steps-1)
	}
	return x, plotBottom - float64(plotBottom-plotTop)*success
}

// drawAxes draws the grid with its numbers and the titles of the axes.
func drawAxes(out *strings.Builder, steps int) {
	const grid = `stroke="#ddd"`
	for tenths := 0; tenths <= 10; tenths += 2 {
		success := float64(tenths) / 10
		_, y := place(1, steps, success)
		line(out, plotLeft, y, plotRight, y, grid)
		text(out, plotLeft-8, y+4, "end", "", fmt.Sprintf("%.1f", success))
	}
	every := tick(steps)
	for step := 1; step <= steps; step++ {
		if step%every != 0 && (step > 1 || every == 2) { // at every second step the first has no room
			continue
		}
		x, _ := place(step, steps, 0)
		line(out, x, plotTop, x, plotBottom, grid)
		text(out, x, plotBottom+18, "middle", "", fmt.Sprint(step))
	}
	line(out, plotLeft, plotBottom, plotRight, plotBottom, `stroke="#000"`)
	line(out, plotLeft, plotTop, plotLeft, plotBottom, `stroke="#000"`)
	middle := float64(plotTop+plotBottom) / 2
	text(out, (plotLeft+plotRight)/2, plotBottom+40, "middle", "", "policy-improvement step")
	text(out, 20, middle, "middle", fmt.Sprintf(`transform="rotate(-90 20 %.0f)"`, middle), "share of tasks solved")
}

// tick is 1, 2 or 5 times a power of ten, such that some ten fit.
func tick(steps int) int {
	for every := 1; ; every *= 10 {
		for _, times := range []int{1, 2, 5} {
			if steps <= 12*every*times {
				return every * times
			}
		}
	}
}

// drawCurve draws a line with a marker at some of its steps, the last among them.
func drawCurve(out *strings.Builder, curve []float64, steps int, style curveStyle) {
	var points, markers strings.Builder
	every := max(1, (steps+15)/16)
	for k, success := range curve {
		x, y := place(k+1, steps, success)
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
		if k%every == 0 || k == len(curve)-1 {
			markers.WriteString(style.marker(x, y))
		}
	}
	fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.TrimSpace(points.String()), style.colour, style.dash)
	fmt.Fprintf(out, `<path d="%s" fill="#fff" stroke="%s" stroke-width="1.5"/>`+"\n", markers.String(), style.colour)
}

// drawLegend shows, below the plot, which curve is whose.
func drawLegend(out *strings.Builder, methods []Method) {
	const sample, gap, character = 36, 24, 7.5
	x, y := float64(plotLeft), float64(plotBottom+70)
	for k, m := range methods {
		style := curveStyles[k%len(curveStyles)]
		width := sample + 8 + character*float64(utf8.RuneCountInString(m.Name))
		if x > plotLeft && x+width > plotRight {
			x, y = plotLeft, y+22
		}
		line(out, x, y, x+sample, y, fmt.Sprintf(`stroke="%s" stroke-width="2" stroke-dasharray="%s"`, style.colour, style.dash))
		fmt.Fprintf(out, `<path d="%s" fill="#fff" stroke="%s" stroke-width="1.5"/>`+"\n", style.marker(x+sample/2, y), style.colour)
		text(out, x+sample+8, y+4, "start", "", m.Name)
		x += width + gap
	}
}

func line(out *strings.Builder, x1, y1, x2, y2 float64, attributes string) {
	fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, attributes)
}

func text(out *strings.Builder, x, y float64, anchor, attributes, words string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(words))
}

// meanCurve averages curves over the seeds that have the step; a run that stopped
// early keeps its last success.
func meanCurve(curves [][]float64, steps int) []float64 {
	out := make([]float64, steps)
	for i := range out {
		for _, c := range curves {
			if len(c) > 0 {
				out[i] += c[min(i, len(c)-1)] / float64(len(curves))
			}
		}
	}
	return out
}
