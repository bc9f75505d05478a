//! A drawing of rectangles, lines and words, as SVG.

/// A drawing that grows.
pub(crate) struct Svg(String);

/// The side of its point on which a text stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Begins a drawing on white, so that it can be read on a dark page too.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let mut svg = Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\">\n"
        ));
        svg.rectangle((0.0, 0.0), (width, height), "#fff");
        svg
    }

    /// Adds a filled rectangle: its upper left corner, width and height.
    pub(crate) fn rectangle(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), fill: &str) {
        self.0 += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{fill}\"/>\n"
        );
    }

    /// Adds an upright line.
    pub(crate) fn upright(&mut self, x: f64, (top, bottom): (f64, f64), stroke: &str) {
        self.0 += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{stroke}\"/>\n"
        );
    }

    /// Adds words of this size.
    pub(crate) fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, size: u8, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.0 += &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"#222\">{words}</text>\n"
        );
    }

    /// Ends the drawing.
    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}
