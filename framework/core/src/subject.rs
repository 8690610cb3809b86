//! The grammar of subjects, and wildcards as in NATS. The only module that knows it.
//!
//! `lab.v1.<run>.<plane>.<node>.<actor>[.<verb>]`; tokens are `[a-z0-9-]{1,32}`; instances are numbered from 1
//! (`camera-1 … camera-N`); `fleet` stands in place of a run for agents; `host` is a reserved actor name: the
//! engine itself speaks there.

use std::fmt;

use thiserror::Error;

/// First tokens of every subject.
pub const PREFIX: &str = "lab.v1";
/// The actor name under which the engine publishes a node's host samples.
pub const HOST: &str = "host";
/// The place of the actor's name among a subject's tokens, from 0.
pub const ACTOR_TOKEN: usize = 5;
/// Longest token, in characters.
pub const TOKEN_CHARS_MAX: usize = 32;

/// What a subject is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Plane {
    /// Life cycle and commands.
    Control,
    /// Measurements.
    Telemetry,
    /// Traffic, and an actor's own address.
    Traffic,
}

impl Plane {
    /// Its token.
    pub const fn token(self) -> &'static str {
        match self {
            Plane::Control => "ctl",
            Plane::Telemetry => "tel",
            Plane::Traffic => "trf",
        }
    }
}

/// Why a text is no token or pattern.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SubjectError {
    /// Nothing between two dots, or nothing at all.
    #[error("an empty token")]
    Empty,
    /// Too long.
    #[error("`{token}` has {chars} characters, at most {TOKEN_CHARS_MAX} are allowed")]
    Long {
        /// The token.
        token: String,
        /// Its length.
        chars: usize,
    },
    /// A character outside `[a-z0-9-]`.
    #[error("`{token}` holds `{found}`; write lower-case letters, digits and `-`")]
    Character {
        /// The token.
        token: String,
        /// The first bad character.
        found: char,
    },
    /// `>` anywhere but last.
    #[error("`>` stands only at the end of a pattern")]
    Tail,
}

/// Checks one token of a subject.
///
/// # Errors
/// [`SubjectError`] names what is wrong with it.
pub fn check_token(token: &str) -> Result<(), SubjectError> {
    if token.is_empty() {
        return Err(SubjectError::Empty);
    }
    if let Some(found) = token.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
        return Err(SubjectError::Character { token: token.to_owned(), found });
    }
    let chars = token.chars().count();
    if chars > TOKEN_CHARS_MAX {
        return Err(SubjectError::Long { token: token.to_owned(), chars });
    }
    Ok(())
}

/// The subject of an actor (`verb` empty for the actor itself).
pub fn subject(run: &str, plane: Plane, node: &str, actor: &str, verb: &str) -> String {
    let plane = plane.token();
    if verb.is_empty() {
        format!("{PREFIX}.{run}.{plane}.{node}.{actor}")
    } else {
        format!("{PREFIX}.{run}.{plane}.{node}.{actor}.{verb}")
    }
}

/// What the subjects of all instances of a counted actor have in common: what stands before and after the number.
pub fn family(run: &str, plane: Plane, node: &str, actor: &str, verb: &str) -> (String, String) {
    let head = format!("{PREFIX}.{run}.{}.{node}.{actor}-", plane.token());
    let tail = if verb.is_empty() { String::new() } else { format!(".{verb}") };
    (head, tail)
}

/// The name of instance `index` (from 0) of `count`: the bare name if there is one, else numbered from 1.
pub fn instance(name: &str, index: u32, count: u32) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{}", index + 1) }
}

/// A pattern with NATS wildcards: `*` is exactly one token, `>` is one or more at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(String);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`SubjectError`] for an empty token or a `>` that is not last.
    pub fn new(text: &str) -> Result<Self, SubjectError> {
        let mut tokens = text.split('.').peekable();
        while let Some(token) = tokens.next() {
            match token {
                "" => return Err(SubjectError::Empty),
                ">" if tokens.peek().is_some() => return Err(SubjectError::Tail),
                "*" | ">" => {}
                _ => check_token(token)?,
            }
        }
        Ok(Pattern(text.to_owned()))
    }

    /// Whether `subject` matches.
    pub fn matches(&self, subject: &str) -> bool {
        let mut have = subject.split('.');
        let mut want = self.0.split('.');
        loop {
            match (want.next(), have.next()) {
                (Some(">"), Some(_)) => return true,
                (Some("*"), Some(_)) => {}
                (Some(w), Some(h)) if w == h => {}
                (None, None) => return true,
                _ => return false,
            }
        }
    }

    /// Whether it holds no wildcard.
    pub fn is_literal(&self) -> bool {
        !self.0.split('.').any(|t| t == "*" || t == ">")
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_those_of_nats() {
        // the table of the NATS documentation: `*` one token, `>` one or more, whole tokens only
        let cases = [
            ("a.b.c", "a.b.c", true),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d.c", false),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b", true),
            ("a.>", "a.b.c.d", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("*.*", "a.b", true),
            ("*.*", "a", false),
            ("a.b", "a.b.c", false),
            ("a.b.c", "a.b", false),
        ];
        for (pattern, subject, expected) in cases {
            let p = Pattern::new(pattern).expect(pattern);
            assert_eq!(p.matches(subject), expected, "{pattern} against {subject}");
        }
    }

    #[test]
    fn bad_tokens_and_patterns_are_told() {
        assert_eq!(check_token(""), Err(SubjectError::Empty));
        assert_eq!(check_token("Camera"), Err(SubjectError::Character { token: "Camera".into(), found: 'C' }));
        assert_eq!(check_token(&"x".repeat(33)), Err(SubjectError::Long { token: "x".repeat(33), chars: 33 }));
        assert_eq!(check_token(&"x".repeat(32)), Ok(()));
        assert_eq!(Pattern::new("a.>.b"), Err(SubjectError::Tail));
        assert_eq!(Pattern::new("a..b"), Err(SubjectError::Empty));
        assert_eq!(instance("camera", 1, 2), "camera-2");
        assert_eq!(instance("receiver", 0, 1), "receiver");
    }
}
