//! `series.parquet` and `requests.parquet` read back, column by column, for reports and comparisons.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::error::ExportError;
use crate::series;

/// Rows that are read; more would not fit into a few hundred megabytes. A node-hour of one actor has 7,200.
const ROWS_MAX: i64 = 5_000_000;

/// Some columns of a series, row by row in the order of the file. What is unknown is NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    rows: usize,
    texts: BTreeMap<String, Vec<Arc<str>>>,
    numbers: BTreeMap<String, Vec<f64>>,
}

impl Frame {
    /// Reads the named columns of the series in a bundle's folder. A column that the file does not have, because an
    /// earlier version wrote it, is all NaN.
    ///
    /// # Errors
    /// When there is no such file, it is broken, or has more than five million rows.
    pub fn open(folder: &Path, columns: &[&str]) -> Result<Self, ExportError> {
        Frame::read(folder.join(series::FILE), columns)
    }

    /// The same of the exchanges that were recorded one by one, `requests.parquet`.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn requests(folder: &Path, columns: &[&str]) -> Result<Self, ExportError> {
        Frame::read(folder.join(crate::requests::FILE), columns)
    }

    fn read(path: PathBuf, columns: &[&str]) -> Result<Self, ExportError> {
        let file = File::open(&path).map_err(|source| ExportError::Read { path: path.clone(), source })?;
        let unreadable = |source| ExportError::Unreadable { path: path.clone(), source };
        let reader = SerializedFileReader::new(file).map_err(unreadable)?;
        let rows = reader.metadata().file_metadata().num_rows();
        if rows > ROWS_MAX {
            return Err(ExportError::TooLong { path, rows, rows_max: ROWS_MAX });
        }
        let rows = usize::try_from(rows).unwrap_or(0);
        let mut frame = Frame { rows, ..Frame::default() };
        frame.fill(&reader, columns).map_err(unreadable)?;
        frame.check(&path)?;
        for name in columns.iter().filter(|name| !frame.texts.contains_key(**name)) {
            frame.numbers.entry((*name).to_owned()).or_insert_with(|| vec![f64::NAN; rows]);
        }
        Ok(frame)
    }

    /// Rows.
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// A column of text; empty if it was not asked for.
    pub fn text(&self, column: &str) -> &[Arc<str>] {
        self.texts.get(column).map_or(&[], Vec::as_slice)
    }

    /// A column of numbers; empty if it was not asked for.
    pub fn number(&self, column: &str) -> &[f64] {
        self.numbers.get(column).map_or(&[], Vec::as_slice)
    }

    fn fill(&mut self, reader: &SerializedFileReader<File>, columns: &[&str]) -> Result<(), ParquetError> {
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut interned = BTreeMap::<Vec<u8>, Arc<str>>::new();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            for (at, column) in schema.columns().iter().enumerate() {
                let name = column.name();
                if columns.contains(&name) {
                    self.column(name, group.as_ref(), at, column.max_def_level(), &mut interned)?;
                }
            }
        }
        Ok(())
    }

    fn column(
        &mut self,
        name: &str,
        group: &dyn RowGroupReader,
        at: usize,
        level: i16,
        interned: &mut BTreeMap<Vec<u8>, Arc<str>>,
    ) -> Result<(), ParquetError> {
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let numbers = |values: Vec<Option<f64>>| values.into_iter().map(|value| value.unwrap_or(f64::NAN));
        let read = match group.get_column_reader(at)? {
            ColumnReader::Int32ColumnReader(mut r) => numbers(cells(&mut r, rows, level, |v| f64::from(*v))?),
            ColumnReader::Int64ColumnReader(mut r) => numbers(cells(&mut r, rows, level, |v| *v as f64)?),
            ColumnReader::DoubleColumnReader(mut r) => numbers(cells(&mut r, rows, level, |v| *v)?),
            ColumnReader::ByteArrayColumnReader(mut r) => {
                let words = cells(&mut r, rows, level, |v: &ByteArray| intern(interned, v.data()))?;
                let words = words.into_iter().map(|word| word.unwrap_or_else(|| Arc::from("")));
                self.texts.entry(name.to_owned()).or_default().extend(words);
                return Ok(());
            }
            _ => return Err(ParquetError::General(format!("column `{name}` has a type that no series has"))),
        };
        self.numbers.entry(name.to_owned()).or_default().extend(read);
        Ok(())
    }

    /// Every column that was found has as many rows as the file says.
    fn check(&self, path: &Path) -> Result<(), ExportError> {
        let lengths = self.texts.values().map(Vec::len).chain(self.numbers.values().map(Vec::len));
        if lengths.clone().all(|length| length == self.rows) {
            return Ok(());
        }
        let source = ParquetError::General("a column is shorter or longer than the file says".to_owned());
        Err(ExportError::Unreadable { path: PathBuf::from(path), source })
    }
}

/// One column of one row group: a value or nothing for each row.
fn cells<D: DataType, T>(
    reader: &mut parquet::column::reader::ColumnReaderImpl<D>,
    rows: usize,
    level: i16,
    convert: impl FnMut(&D::T) -> T,
) -> Result<Vec<Option<T>>, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (read, _, _) = reader.read_records(rows, (level > 0).then_some(&mut levels), None, &mut values)?;
    if read != rows {
        return Err(ParquetError::General(format!("{read} of {rows} rows are there")));
    }
    let mut values = values.iter().map(convert);
    if level == 0 {
        return Ok(values.map(Some).collect());
    }
    Ok(levels.iter().map(|defined| if *defined == level { values.next() } else { None }).collect())
}

fn intern(known: &mut BTreeMap<Vec<u8>, Arc<str>>, word: &[u8]) -> Arc<str> {
    if let Some(word) = known.get(word) {
        return word.clone();
    }
    let text: Arc<str> = String::from_utf8_lossy(word).into();
    known.insert(word.to_owned(), text.clone());
    text
}

#[cfg(test)]
mod tests {
    use rehearsal_core::messages::HostSample;

    use super::*;
    use crate::folder::Folder;
    use crate::series::Series;
    use crate::testing::Scratch;

    fn sample(second: u32, cpu_percent: Option<f64>) -> HostSample {
        HostSample { second, node: format!("node-{}", second % 2 + 1), cpu_percent, ..HostSample::default() }
    }

    #[test]
    fn rows_are_read_back_over_several_groups() {
        let scratch = Scratch::new("frame");
        let mut folder = Folder::create(&scratch.path().join("run")).unwrap();
        folder.keep();
        let mut series = Series::create(&folder, false).unwrap();
        let rows = 20_000;
        for second in 0..rows {
            series.host(&sample(second, (second % 3 > 0).then_some(f64::from(second) / 2.0))).unwrap();
        }
        series.finish().unwrap();
        let frame =
            Frame::open(folder.partial(), &["second", "node", "cpu_percent", "sent", "from_the_future"]).unwrap();
        assert_eq!((frame.len(), frame.is_empty()), (20_000, false));
        for (at, (second, cpu)) in frame.number("second").iter().zip(frame.number("cpu_percent")).enumerate() {
            assert_eq!(*second, at as f64);
            assert!(if at % 3 > 0 { *cpu == at as f64 / 2.0 } else { cpu.is_nan() });
        }
        assert_eq!(frame.text("node")[7].as_ref(), "node-2");
        for name in ["sent", "from_the_future"] {
            assert!(frame.number(name).len() == 20_000 && frame.number(name).iter().all(|v| v.is_nan()));
        }
        assert!(frame.number("generated").is_empty() && frame.text("kind").is_empty(), "not asked for");
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let scratch = Scratch::new("frame-broken");
        let error = Frame::open(scratch.path(), &["second"]).unwrap_err().to_string();
        assert!(error.ends_with("series.parquet cannot be read; is this a result folder?"), "{error}");
        std::fs::write(scratch.path().join("series.parquet"), b"PAR1 and nothing else PAR1").unwrap();
        let error = Frame::open(scratch.path(), &["second"]).unwrap_err().to_string();
        assert!(error.contains("is broken"), "{error}");
    }
}
