//! Names of subjects, each with a number. Those of a counted group are one family: its first number and how many there
//! are, so a million of them take no more memory than one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::SubjectId;
use crate::subject::{ACTOR_TOKEN, Pattern};

/// Numbered names, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Names {
    rows: Vec<Row>,
    count: u32,
    singles: BTreeMap<String, SubjectId>,
    /// Rows of families, by what their names have in common.
    families: BTreeMap<String, usize>,
}

/// One name, or those of a family, which differ in a number.
#[derive(Debug)]
pub(super) struct Row {
    base: u32,
    len: u32,
    /// The name, or what stands before the number.
    head: String,
    /// What stands after the number; `None` if there is none.
    tail: Option<String>,
}

impl Row {
    /// The numbers of its names.
    pub(super) fn ids(&self) -> Range<u32> {
        self.base..self.base + self.len
    }

    /// Its `member`-th name, from 0.
    pub(super) fn name(&self, member: u32) -> Cow<'_, str> {
        match &self.tail {
            Some(tail) => Cow::Owned(format!("{}{}{tail}", self.head, member + 1)),
            None => Cow::Borrowed(&self.head),
        }
    }

    /// Whether `pattern` may match some of its names and not others.
    pub(super) fn is_split_by(&self, pattern: &Pattern) -> bool {
        let token = pattern.as_str().split('.').nth(ACTOR_TOKEN);
        let stem = self.head.split('.').nth(ACTOR_TOKEN);
        self.tail.is_some() && token.zip(stem).is_some_and(|(token, stem)| token.starts_with(stem))
    }
}

impl Names {
    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Names and families, in the order of their numbers.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The name of that number; empty if there is none.
    pub(super) fn name(&self, id: SubjectId) -> Cow<'_, str> {
        let at = self.rows.partition_point(|row| row.base <= id.0);
        let row = at.checked_sub(1).map(|at| &self.rows[at]).filter(|row| row.ids().contains(&id.0));
        row.map_or(Cow::Borrowed(""), |row| row.name(id.0 - row.base))
    }

    /// The number of a name, if it has one.
    pub(super) fn find(&self, name: &str) -> Option<SubjectId> {
        if let Some(id) = self.singles.get(name) {
            return Some(*id);
        }
        let (head, number, tail) = apart(name)?;
        let row = &self.rows[*self.families.get(&key(head, tail))?];
        (number <= row.len).then(|| SubjectId(row.base + number - 1))
    }

    /// The number of a name, new or known.
    pub(super) fn intern(&mut self, name: &str) -> SubjectId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.add(1, name.to_owned(), None);
        self.singles.insert(name.to_owned(), id);
        id
    }

    /// The first number of the family of `len` names `head` 1 `tail`, `head` 2 `tail` and so on, new or known.
    ///
    /// # Panics
    /// If one of them has a number of its own already: only a bug can do that.
    pub(super) fn family(&mut self, head: &str, tail: &str, len: u32) -> SubjectId {
        if let Some(row) = self.families.get(&key(head, tail)) {
            let row = &self.rows[*row];
            assert_eq!(row.len, len, "a family has as many names as its group has members");
            return SubjectId(row.base);
        }
        let alike =
            self.singles.range(head.to_owned()..).map(|(name, _)| name).take_while(|name| name.starts_with(head));
        let known = alike.filter_map(|name| apart(name)).any(|(h, n, t)| h == head && t == tail && n <= len);
        assert!(!known, "a family's subjects are named by its own group first");
        self.families.insert(key(head, tail), self.rows.len());
        self.add(len, head.to_owned(), Some(tail.to_owned()))
    }

    fn add(&mut self, len: u32, head: String, tail: Option<String>) -> SubjectId {
        let base = self.count;
        self.count += len;
        self.rows.push(Row { base, len, head, tail });
        SubjectId(base)
    }
}

/// What the names of a family have in common. No token holds a space.
fn key(head: &str, tail: &str) -> String {
    format!("{head} {tail}")
}

/// A name with a numbered actor, before, in and after the number, which counts from 1.
fn apart(name: &str) -> Option<(&str, u32, &str)> {
    let (last, _) = name.match_indices('.').nth(ACTOR_TOKEN - 1)?;
    let actor = &name[last + 1..];
    let end = last + 1 + actor.find('.').unwrap_or(actor.len());
    let begin = last + 1 + name[last + 1..end].rfind('-')? + 1;
    let digits = &name[begin..end];
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    Some((&name[..begin], number, &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_family_are_found_by_name_and_number() {
        let mut names = Names::default();
        let single = names.intern("lab.v1.r.ctl.a.main.start");
        let base = names.family("lab.v1.r.tel.a.sensor-", ".counters", 1000);
        let bare = names.family("lab.v1.r.trf.a.sensor-", "", 3);
        let other = names.intern("lab.v1.r.trf.a.sensor-4");
        assert_eq!((single.0, base.0, bare.0, other.0, names.len()), (0, 1, 1001, 1004, 1005));
        assert_eq!(names.family("lab.v1.r.tel.a.sensor-", ".counters", 1000), base, "named again");
        for row in names.rows() {
            for id in row.ids() {
                let name = names.name(SubjectId(id));
                assert_eq!(names.find(&name), Some(SubjectId(id)), "{name}");
                assert_eq!(row.name(id - row.ids().start), name);
            }
        }
        assert_eq!(names.name(base.member(6)), "lab.v1.r.tel.a.sensor-7.counters");
        for unknown in [
            "",
            "lab.v1.r.tel.a.sensor-0.counters",
            "lab.v1.r.tel.a.sensor-07.counters",
            "lab.v1.r.tel.a.sensor-+7.counters",
            "lab.v1.r.tel.a.sensor-1001.counters",
            "lab.v1.r.tel.a.sensor-7",
            "lab.v1.r.tel.a.sensor-7.counters.x",
            "lab.v1.r.tel.a.sensor-99999999999.counters",
            "lab.v1.r.tel.a.sensor",
            "lab.v1.r.tel",
        ] {
            assert_eq!(names.find(unknown), None, "{unknown}");
        }
        assert_eq!(names.name(SubjectId(1005)), "");
    }

    #[test]
    fn only_a_named_number_splits_a_family() {
        let mut names = Names::default();
        names.family("lab.v1.r.tel.a.sensor-", ".counters", 10);
        let row = &names.rows()[0];
        for (pattern, splits) in [
            ("lab.v1.r.tel.a.*.counters", false),
            ("lab.v1.r.tel.>", false),
            ("lab.v1.r.tel.a.camera-2.counters", false),
            ("lab.v1.r.tel.a.sensor-2.counters", true),
            ("lab.v1.r.tel.*.sensor-2.>", true),
        ] {
            assert_eq!(row.is_split_by(&Pattern::new(pattern).expect(pattern)), splits, "{pattern}");
        }
    }

    #[test]
    #[should_panic(expected = "named by its own group first")]
    fn a_family_is_named_before_its_members() {
        let mut names = Names::default();
        names.intern("lab.v1.r.tel.a.sensor-7.counters");
        names.family("lab.v1.r.tel.a.sensor-", ".counters", 7);
    }
}
