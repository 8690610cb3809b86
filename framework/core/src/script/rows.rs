//! Rows of a CSV file (RFC 4180): the first names the columns.

use super::text::is_name;

/// Most rows of a file.
pub const ROWS_MAX: usize = 1_000_000;
/// Largest file, bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// Most columns.
pub const COLUMNS_MAX: usize = 64;

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    columns: Vec<String>,
    cells: Vec<Box<str>>,
}

impl Rows {
    /// Reads a file. Empty lines are skipped.
    ///
    /// # Errors
    /// The line at fault, and what is wrong there.
    pub fn read(bytes: &[u8]) -> Result<Rows, String> {
        if bytes.len() > BYTES_MAX {
            return Err(format!("it has {} bytes, at most {BYTES_MAX} are read", bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let mut reader = Reader { rest: text.strip_prefix('\u{FEFF}').unwrap_or(text), line: 1 };
        let (_, head) = reader.record()?.ok_or("it has no first row, which names the columns")?;
        if head.len() > COLUMNS_MAX {
            return Err(format!("it has {} columns, at most {COLUMNS_MAX} are read", head.len()));
        }
        let columns: Vec<String> = head.iter().map(|name| name.trim().to_owned()).collect();
        for (place, name) in columns.iter().enumerate() {
            if !is_name(name) {
                let what = "a column's name has letters, digits, `_` and `-`, and begins with a letter";
                return Err(format!("line 1: `{name}` names no column: {what}"));
            }
            if columns[..place].contains(name) {
                return Err(format!("line 1: two columns are called `{name}`"));
            }
        }
        let mut cells: Vec<Box<str>> = Vec::new();
        while let Some((line, record)) = reader.record()? {
            if record.len() != columns.len() {
                let (has, wanted) = (record.len(), columns.len());
                return Err(format!("line {line}: it has {has} fields, and the first row names {wanted}"));
            }
            if cells.len() / columns.len() == ROWS_MAX {
                return Err(format!("line {line}: at most {ROWS_MAX} rows are read"));
            }
            cells.extend(record.into_iter().map(String::into_boxed_str));
        }
        if cells.is_empty() { Err("it has no row behind the first".to_owned()) } else { Ok(Rows { columns, cells }) }
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.cells.len() / self.columns.len()
    }

    /// Whether there is none, which is never so.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A row by any number: after the last comes the first.
    pub fn row(&self, number: u64) -> &[Box<str>] {
        let (row, width) = ((number % self.len() as u64) as usize, self.columns.len());
        &self.cells[row * width..(row + 1) * width]
    }
}

/// What is left to read.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    /// The next row with its line.
    fn record(&mut self) -> Result<Option<(usize, Vec<String>)>, String> {
        while let Some(rest) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
            (self.rest, self.line) = (rest, self.line + 1);
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (line, mut record) = (self.line, Vec::new());
        loop {
            record.push(self.field()?);
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.rest = rest;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
                (self.rest, self.line) = (rest, self.line + 1);
            } else if !self.rest.is_empty() {
                return Err(format!(
                    "line {}: a field in quotes ends before a comma or the end of the line",
                    self.line
                ));
            }
            return Ok(Some((line, record)));
        }
    }

    fn field(&mut self) -> Result<String, String> {
        let Some(mut rest) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
            let field = self.rest[..end].strip_suffix('\r').filter(|_| !self.rest[end..].starts_with(','));
            let field = field.unwrap_or(&self.rest[..end]).to_owned();
            self.rest = &self.rest[end..];
            return Ok(field);
        };
        let (begun, mut field) = (self.line, String::new());
        loop {
            let Some(end) = rest.find('"') else { return Err(format!("line {begun}: a quote is not closed")) };
            field.push_str(&rest[..end]);
            self.line += rest[..end].matches('\n').count();
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    rest = more;
                }
                None => {
                    self.rest = rest;
                    return Ok(field);
                }
            }
        }
    }
}
