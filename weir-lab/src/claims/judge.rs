//! Compares claims with measurements.

use super::kind::RowKind;
use super::measured::Measured;
use super::sheet::{Claim, Era, Sheet, Target, Tolerance};
use serde::Serialize;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim is true.
    Holds,
    /// It is false, and the sheet gives no reason.
    Fails,
    /// It is false, and the sheet gives a reason.
    FailsBecause,
    /// It is false, and the sheet says what was tried to find the reason.
    FailsCauseUnknown,
    /// It cannot be tested, and the sheet gives a reason.
    NotReproduced,
}

/// A claim beside its measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The id of the claim.
    pub id: String,
    /// The source on which the claim rests.
    pub kind: RowKind,
    /// The facts that it reads.
    pub facts: Vec<String>,
    /// The run it was compared with.
    pub era: Era,
    /// The section of the source.
    pub section: String,
    /// The claim in a sentence.
    pub says: String,
    /// The paper's value, or the bound.
    pub expected: String,
    /// The measured value, with its unit.
    pub measured: String,
    /// The origin of the tolerance or bound.
    pub from: String,
    /// Holds, fails, or cannot be tested.
    pub verdict: Verdict,
    /// Why it fails, or what was tried to find that, or why it cannot be tested.
    pub because: Option<String>,
    /// The row whose run shows that reason.
    pub shown_by: Option<String>,
    /// The reading of the source under which it is tested, where there are two.
    pub reading: Option<String>,
    /// Whether the claim holds in the sound run, too; then it is no evidence of a fault. None where
    /// that was not judged: rows of the sound run, rows of no paper.
    pub sound_too: Option<bool>,
}

/// The comparison of a claim: the expected value, the measured one, and whether they agree.
struct Held {
    expected: String,
    measured: String,
    holds: bool,
}

impl Verdict {
    /// Returns the words in tables.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "FAILS",
            Verdict::FailsBecause => "fails, explained",
            Verdict::FailsCauseUnknown => "fails, cause unknown",
            Verdict::NotReproduced => "not reproduced",
        }
    }
}

/// Judges every claim of a sheet about `era`, and lists what cannot be reproduced; `measured` is an
/// error message if the run failed.
pub fn judge(sheet: &Sheet, era: Era, measured: Result<&Measured, &str>) -> Vec<Judged> {
    let claims = sheet.claims.iter().filter(|claim| claim.era.include(era));
    let mut rows: Vec<Judged> = claims.map(|claim| held(claim, era, measured)).collect();
    // Reported once, in the first era that is run.
    let first = Era::ALL.into_iter().find(|&era| sheet.eras.include(era));
    if first == Some(era) {
        rows.extend(sheet.irreproducible.iter().map(|row| Judged {
            id: String::new(),
            kind: RowKind::Statement,
            facts: Vec::new(),
            era,
            section: sheet.section.clone(),
            says: row.what.clone(),
            expected: String::new(),
            measured: String::new(),
            from: String::new(),
            verdict: Verdict::NotReproduced,
            because: Some(row.reason.clone()),
            shown_by: None,
            reading: None,
            sound_too: None,
        }));
    }
    rows
}

fn held(claim: &Claim, era: Era, measured: Result<&Measured, &str>) -> Judged {
    let looked = measured.map_err(str::to_owned).and_then(|measured| claim.hold(measured));
    let held = looked.unwrap_or_else(|why| Held {
        expected: claim.expectation(""),
        measured: why,
        holds: false,
    });
    let missing = measured.ok().and_then(|measured| claim.missing(measured)).map(str::to_owned);
    let verdict = match (held.holds, &claim.because) {
        (true, _) => Verdict::Holds,
        (false, _) if missing.is_some() => Verdict::NotReproduced,
        (false, Some(_)) => Verdict::FailsBecause,
        (false, None) if claim.cause_unknown.is_some() => Verdict::FailsCauseUnknown,
        (false, None) => Verdict::Fails,
    };
    let why = claim.because.clone().or(claim.cause_unknown.clone());
    Judged {
        id: claim.id.clone(),
        kind: claim.kind,
        facts: claim.facts.clone(),
        era,
        section: claim.section.clone(),
        says: claim.says.clone(),
        expected: held.expected,
        measured: held.measured,
        from: claim.from.clone(),
        verdict,
        because: missing.or(why).filter(|_| verdict != Verdict::Holds),
        shown_by: claim.shown_by.clone().filter(|_| verdict != Verdict::Holds),
        reading: claim.reading.clone(),
        sound_too: None,
    }
}

/// Judges the historic rows of papers on the sound run, too.
pub fn judge_on_sound(sheet: &Sheet, historic: &mut [Judged], sound: &Measured) {
    let of_papers = historic.iter_mut().filter(|row| row.kind.is_of_a_paper());
    for row in of_papers {
        let claim = sheet.claims.iter().find(|claim| claim.id == row.id);
        let held = claim.and_then(|claim| claim.on_sound(sheet).hold(sound).ok());
        row.sound_too = held.map(|held| held.holds);
    }
}

impl Claim {
    /// Returns why a figure that it needs cannot be measured here, if that is so.
    fn missing<'a>(&self, measured: &'a Measured) -> Option<&'a str> {
        let targets =
            [&self.value, &self.at_least, &self.at_most, &self.more_than, &self.less_than];
        let named = targets.into_iter().filter_map(|target| match target {
            Some(Target::Figure(name)) => Some(name),
            _ => None,
        });
        self.figure.iter().chain(named).find_map(|name| measured.missing(name))
    }

    /// # Errors
    /// When a figure or series was not measured.
    fn hold(&self, measured: &Measured) -> Result<Held, String> {
        if let Some(name) = &self.figure {
            let figure = measured.figures.get(name);
            let figure = figure.ok_or_else(|| format!("no figure `{name}` was measured"))?;
            let holds = self.suits(0, figure.mean, measured)?;
            let near = if holds { self.near(figure.mean, measured) } else { None };
            let near = near.unwrap_or_default();
            return Ok(Held {
                expected: self.expectation(&figure.unit),
                measured: with_unit(&shown(figure.mean), &figure.unit) + &near,
                holds,
            });
        }
        let name = self.series.as_deref().unwrap_or_default();
        let values = measured.series.get(name);
        let values = values.ok_or_else(|| format!("no series `{name}` was measured"))?;
        let mut suited = 0;
        for (index, &value) in values.iter().enumerate() {
            suited += usize::from(self.suits(index, value, measured)?);
        }
        let count = self.values.as_ref().map_or(values.len(), Vec::len);
        Ok(Held {
            expected: self.expectation(""),
            measured: format!("{suited} of {count} values"),
            holds: suited == count && values.len() == count && count > 0,
        })
    }

    /// Says how near a value that holds is to the end of its tolerance, where nine tenths or more
    /// of that are used up.
    fn near(&self, value: f64, measured: &Measured) -> Option<String> {
        let expected = match self.value.as_ref()? {
            Target::Number(number) => *number,
            Target::Figure(name) => measured.value(name)? * self.times,
        };
        let off = (value - expected).abs();
        let (used, allowed, unit) = match self.within? {
            Tolerance::Absolute(allowed) => (off, allowed, ""),
            Tolerance::Percent(allowed) => (100.0 * off / expected.abs(), allowed, " %"),
        };
        let is_near = allowed > 0.0 && used >= NEAR * allowed;
        is_near.then(|| format!(" (off by {used:.2} of {}{unit} allowed)", shown(allowed)))
    }

    /// Returns whether the value at `index` is as claimed.
    fn suits(&self, index: usize, value: f64, measured: &Measured) -> Result<bool, String> {
        let target = |target: &Target| match target {
            Target::Number(number) => Ok(*number),
            Target::Figure(name) => measured
                .value(name)
                .map(|value| value * self.times)
                .ok_or_else(|| format!("no figure `{name}` was measured")),
        };
        let expected = match (&self.values, &self.value) {
            (Some(values), _) => match values.get(index) {
                Some(&value) => Some(value),
                None => return Ok(false),
            },
            (None, Some(value)) => Some(target(value)?),
            (None, None) => None,
        };
        let mut suits = match (expected, self.within) {
            (Some(expected), Some(tolerance)) => tolerance.allows(value, expected),
            _ => true,
        };
        type Compare = fn(&f64, &f64) -> bool;
        let bounds: [(&Option<Target>, Compare); 4] = [
            (&self.at_least, f64::ge),
            (&self.at_most, f64::le),
            (&self.more_than, f64::gt),
            (&self.less_than, f64::lt),
        ];
        for (bound, compare) in bounds {
            if let Some(bound) = bound {
                suits &= compare(&value, &target(bound)?);
            }
        }
        Ok(suits)
    }

    /// Describes the expected value.
    fn expectation(&self, unit: &str) -> String {
        let times = if self.times == 1.0 { String::new() } else { format!("{} x ", self.times) };
        let target = |target: &Target| match target {
            Target::Number(number) => with_unit(&shown(*number), unit),
            Target::Figure(name) => format!("{times}`{name}`"),
        };
        let within = self.within.map_or_else(String::new, |tolerance| match tolerance {
            Tolerance::Absolute(0.0) => String::new(),
            Tolerance::Absolute(number) => format!(" ± {}", shown(number)),
            Tolerance::Percent(percent) => format!(" ± {} %", shown(percent)),
        });
        if let Some(values) = &self.values {
            return format!("{} values{within}", values.len());
        }
        if let Some(value) = &self.value {
            return format!("{}{within}", target(value));
        }
        let words = [
            ("≥", &self.at_least),
            ("≤", &self.at_most),
            (">", &self.more_than),
            ("<", &self.less_than),
        ];
        let written = |(word, bound): (&str, &Option<Target>)| {
            bound.as_ref().map(|bound| format!("{word} {}", target(bound)))
        };
        words.into_iter().filter_map(written).collect::<Vec<_>>().join(", ")
    }
}

impl Tolerance {
    fn allows(self, value: f64, expected: f64) -> bool {
        let off = (value - expected).abs();
        // A value off by exactly the tolerance must not fail by rounding of floats.
        let grain = expected.abs() * 1e-9;
        match self {
            Tolerance::Absolute(number) => off <= number + grain,
            Tolerance::Percent(percent) => off <= expected.abs() * percent / 100.0 + grain,
        }
    }
}

/// The part of a tolerance from which on a row that holds says how near it is to failing.
const NEAR: f64 = 0.9;

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// Formats five significant digits, without trailing zeros.
pub(crate) fn shown(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let digits = (4 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0') } else { &text };
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the verdict of a claim with these keys on x = 25.3, y = 10, z = [1, 2].
    fn check(claim: &str, expected: Verdict) {
        let text = format!(
            "title = \"a\"\nsection = \"a\"\nquestion = \"a\"\nmeasure = \"a\"\n[[claim]]\nid = \"a\"\n\
             says = \"a\"\nera = \"historic\"\nfrom = \"a\"\nkind = \"goal\"\n{claim}"
        );
        let sheet = Sheet::parse(&text, "p", "i").unwrap_or_else(|error| panic!("{error}"));
        let mut measured = Measured::default();
        measured.figure("x", 25.3, "Mbit/s").figure("y", 10.0, "").series("z", vec![1.0, 2.0]);
        let rows = judge(&sheet, Era::Historic, Ok(&measured));
        assert_eq!(rows[0].verdict, expected, "{claim}: {rows:?}");
        assert!(judge(&sheet, Era::Sound, Ok(&measured)).is_empty());
        let failed = judge(&sheet, Era::Historic, Err("no file"));
        assert_ne!(failed[0].verdict, Verdict::Holds);
        assert_eq!(failed[0].measured, "no file");
    }

    #[test]
    fn a_claim_is_compared_with_the_figure_it_names() {
        use Verdict::{Fails, FailsBecause, FailsCauseUnknown, Holds};
        check("figure = \"x\"\nvalue = 25.2\nwithin = \"1 %\"", Holds);
        check("figure = \"x\"\nvalue = 25.2\nwithin = \"0.3 %\"", Fails);
        check("figure = \"x\"\nvalue = 25.2\nwithin = 0.1", Holds);
        check("figure = \"x\"\nvalue = 25.2\nwithin = 0.09", Fails);
        check("figure = \"x\"\nvalue = 25.2\nwithin = 0\nbecause = \"why\"", FailsBecause);
        let unknown = "figure = \"x\"\nvalue = 25.2\nwithin = 0\ncause_unknown = \"tried\"";
        check(unknown, FailsCauseUnknown);
        check("figure = \"x\"\nvalue = 25.3\nwithin = 0\nbecause = \"why\"", Holds);
        check("figure = \"x\"\nat_least = \"y\"\ntimes = 2.5", Holds);
        check("figure = \"x\"\nat_least = \"y\"\ntimes = 2.6", Fails);
        check("figure = \"x\"\nat_least = 24\nat_most = 25", Fails);
        check("figure = \"x\"\nmore_than = 25.3", Fails);
        check("figure = \"x\"\nless_than = 25.4", Holds);
        check("figure = \"w\"\nless_than = 25.4", Fails);
        check("figure = \"x\"\nless_than = \"w\"", Fails);
        check("series = \"z\"\nvalues = [1, 2]\nwithin = 0", Holds);
        check("series = \"z\"\nvalues = [1, 2.1]\nwithin = 0", Fails);
        check("series = \"z\"\nvalues = [1, 2, 3]\nwithin = 0", Fails);
        check("series = \"z\"\nvalues = [1]\nwithin = 0", Fails);
        check("series = \"z\"\nat_most = 2", Holds);
        check("series = \"z\"\nat_most = 1.5", Fails);
    }

    #[test]
    fn a_row_that_holds_by_little_says_how_near_it_is() {
        let check = |claim: &str, expected: &str| {
            let text = format!(
                "title = \"a\"\nsection = \"a\"\nquestion = \"a\"\nmeasure = \"a\"\n[[claim]]\n\
                 id = \"a\"\nsays = \"a\"\nera = \"sound\"\nfrom = \"a\"\nkind = \"goal\"\n\
                 figure = \"x\"\n{claim}"
            );
            let sheet = Sheet::parse(&text, "p", "i").unwrap_or_else(|error| panic!("{error}"));
            let mut measured = Measured::default();
            measured.figure("x", 104.8, "kbit/s").figure("y", 50.0, "kbit/s");
            let rows = judge(&sheet, Era::Sound, Ok(&measured));
            assert_eq!(rows[0].measured, expected, "{claim}");
        };
        let near = "104.8 kbit/s (off by 4.80 of 5 % allowed)";
        check("value = 100\nwithin = \"5 %\"", near);
        check("value = \"y\"\ntimes = 2\nwithin = \"5 %\"", near);
        check("value = 100\nwithin = 5", "104.8 kbit/s (off by 4.80 of 5 allowed)");
        check("value = 100\nwithin = \"6 %\"", "104.8 kbit/s");
        check("value = 100\nwithin = \"4 %\"", "104.8 kbit/s");
        check("value = 104.8\nwithin = 0", "104.8 kbit/s");
        check("at_most = 105", "104.8 kbit/s");
    }

    #[test]
    fn a_claim_about_a_missing_figure_cannot_be_tested() {
        let sheet = |claim: &str| {
            let text = format!(
                "title = \"a\"\nsection = \"a\"\nquestion = \"a\"\nmeasure = \"a\"\n[[claim]]\n\
                 id = \"a\"\nsays = \"a\"\nera = \"sound\"\nfrom = \"a\"\nkind = \"check\"\n{claim}"
            );
            Sheet::parse(&text, "p", "i").unwrap_or_else(|error| panic!("{error}"))
        };
        let mut measured = Measured::default();
        measured.figure("x", 1.0, "");
        measured.missing.insert("iperf3.".to_owned(), "it is not installed".to_owned());
        for claim in
            ["figure = \"iperf3.x\"\nat_least = 1", "figure = \"x\"\nat_least = \"iperf3.x\""]
        {
            let rows = judge(&sheet(claim), Era::Sound, Ok(&measured));
            assert_eq!(rows[0].verdict, Verdict::NotReproduced);
            assert_eq!(rows[0].because.as_deref(), Some("it is not installed"));
        }
        let other = judge(&sheet("figure = \"y\"\nat_least = 1"), Era::Sound, Ok(&measured));
        assert_eq!(other[0].verdict, Verdict::Fails);
    }

    #[test]
    fn numbers_are_shown_with_five_digits() {
        let rows = [
            (0.0, "0"),
            (25.3, "25.3"),
            (25.284_123, "25.284"),
            (1928.04, "1928"),
            (0.000_05, "0.00005"),
            (-1.5, "-1.5"),
            (123_456.7, "123457"),
            (100.0, "100"),
        ];
        for (number, expected) in rows {
            assert_eq!(shown(number), expected);
        }
    }
}
