package ablation

import (
	"fmt"
	"html"
	"math"
	"strings"
	"unicode/utf8"
)

// The chart's measures, in pixels.
const (
	chartWidth, chartHeight = 800, 500
	plotLeft, plotRight     = 70, 780
	plotTop, plotBottom     = 50, 370
	markerRadius            = 4.0
)

// curveStyle is how a method's curve looks. Colours are those of Okabe and Ito, which
// colour-blind people tell apart, and three more; dashes and markers do without colours.
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
	{"#8b4513", "6 2", triangle},
	{"#808080", "12 2 2 2", diamond},
	{"#6a3d9a", "4 6", cross},
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

// scale maps trajectories and returns to the plot.
type scale struct {
	played   int // to the right end
	low, top float64
	every    float64 // between the lines of the grid
}

// chart draws, as SVG, the mean return of every method's rollouts against the trajectories
// played, and the range that it has over the seeds.
func (r *Result) chart(methods []Method) []byte {
	var s scale
	low, high := 0.0, 0.0
	for _, m := range methods {
		for k, played := range r.Played[m.Name] {
			if n := len(played); n > 0 {
				s.played = max(s.played, played[n-1])
			}
			for _, x := range r.Returns[m.Name][k] {
				low, high = min(low, x), max(high, x)
			}
		}
	}
	s.every = step(high - low)
	s.low, s.top = s.every*math.Floor(low/s.every), s.every*math.Ceil(high/s.every)
	if s.top == s.low {
		s.top = s.low + s.every
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	seeds := "1 seed"
	if n := len(r.Seeds); n != 1 {
		seeds = fmt.Sprintf("mean and range of %d seeds", n)
	}
	text(&out, (plotLeft+plotRight)/2, 28, "middle", `font-size="16"`, r.Env+": return of rollouts by trajectories played, "+seeds)
	s.axes(&out)
	for k, m := range methods {
		style := curveStyles[k%len(curveStyles)]
		mean, low, high, played := spread(r.Returns[m.Name], r.Played[m.Name])
		if len(r.Seeds) > 1 {
			s.band(&out, played, low, high, style)
		}
		s.curve(&out, played, mean, style)
	}
	drawLegend(&out, methods)
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// place is where a point stands in the plot.
func (s scale) place(played int, value float64) (x, y float64) {
	x = plotLeft + float64(plotRight-plotLeft)*float64(played)/float64(max(1, s.played))
	return x, plotBottom - float64(plotBottom-plotTop)*(value-s.low)/(s.top-s.low)
}

// axes draws the grid with its numbers and the titles of the axes.
func (s scale) axes(out *strings.Builder) {
	const grid = `stroke="#ddd"`
	for k := 0; k <= int(math.Round((s.top-s.low)/s.every)); k++ {
		value := s.low + float64(k)*s.every
		_, y := s.place(0, value)
		line(out, plotLeft, y, plotRight, y, grid)
		text(out, plotLeft-8, y+4, "end", "", fmt.Sprintf("%.4g", value))
	}
	every := tick(s.played)
	for played := 0; played <= s.played; played += every {
		x, _ := s.place(played, s.low)
		line(out, x, plotTop, x, plotBottom, grid)
		text(out, x, plotBottom+18, "middle", "", fmt.Sprint(played))
	}
	line(out, plotLeft, plotBottom, plotRight, plotBottom, `stroke="#000"`)
	line(out, plotLeft, plotTop, plotLeft, plotBottom, `stroke="#000"`)
	middle := float64(plotTop+plotBottom) / 2
	text(out, (plotLeft+plotRight)/2, plotBottom+40, "middle", "", "trajectories played")
	text(out, 20, middle, "middle", fmt.Sprintf(`transform="rotate(-90 20 %.0f)"`, middle), "return, mean of a step")
}

// tick is 1, 2 or 5 times a power of ten, such that some ten fit.
func tick(n int) int {
	for every := 1; ; every *= 10 {
		for _, times := range []int{1, 2, 5} {
			if n <= 12*every*times {
				return every * times
			}
		}
	}
}

// step is 1, 2 or 5 times a power of ten, such that some five fit.
func step(length float64) float64 {
	if length <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(length))-1)
	for _, times := range []float64{1, 2, 5, 10} {
		if length <= 6*unit*times {
			return unit * times
		}
	}
	return 20 * unit
}

// band fills what lies between the lowest and the highest seed.
func (s scale) band(out *strings.Builder, played []int, low, high []float64, style curveStyle) {
	var points strings.Builder
	for k := range played {
		x, y := s.place(played[k], high[k])
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	for k := len(played) - 1; k >= 0; k-- {
		x, y := s.place(played[k], low[k])
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	fmt.Fprintf(out, `<polygon points="%s" fill="%s" fill-opacity="0.12"/>`+"\n", strings.TrimSpace(points.String()), style.colour)
}

// curve draws a line with a marker at some of its steps, the last among them.
func (s scale) curve(out *strings.Builder, played []int, values []float64, style curveStyle) {
	var points, markers strings.Builder
	every := max(1, (len(values)+15)/16)
	for k, value := range values {
		x, y := s.place(played[k], value)
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
		if k%every == 0 || k == len(values)-1 {
			markers.WriteString(style.marker(x, y))
		}
	}
	fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.TrimSpace(points.String()), style.colour, style.dash)
	fmt.Fprintf(out, `<path d="%s" fill="#fff" stroke="%s" stroke-width="1.5"/>`+"\n", markers.String(), style.colour)
}

// spread returns mean, least and greatest over the seeds at each step, up to the last of the
// longest run, and what that had played. A run that stopped early keeps its last value.
func spread(curves [][]float64, trajectories [][]int) (mean, low, high []float64, played []int) {
	for _, p := range trajectories {
		if len(p) > len(played) {
			played = p
		}
	}
	mean, low, high = make([]float64, len(played)), make([]float64, len(played)), make([]float64, len(played))
	for i := range played {
		low[i], high[i] = math.Inf(1), math.Inf(-1)
		n := 0.0
		for _, c := range curves {
			if len(c) == 0 {
				continue
			}
			x := c[min(i, len(c)-1)]
			mean[i], low[i], high[i] = mean[i]+x, min(low[i], x), max(high[i], x)
			n++
		}
		mean[i] /= n
	}
	return mean, low, high, played
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
