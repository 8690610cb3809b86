//! One Parquet file, written row by row in bounded row groups: the same rows give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::error::ExportError;

/// Rows that are kept in memory before they are written; about 3 MB of a series. Assumed: a quarter of an hour of ten
/// groups, and the footer, which has an entry for each group of rows and column, stays small over a day.
pub(crate) const GROUP_ROWS: usize = 8_192;
/// Names the writer inside each file; not the version of the program, which the manifest holds.
const CREATED_BY: &str = "rehearsal-export";

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// 32-bit whole numbers.
    Int32,
    /// 64-bit whole numbers.
    Int64,
    /// Doubles.
    Double,
    /// UTF-8 text, dictionary-encoded.
    Text,
}

/// A column's name and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// Whether a value may be unknown.
    pub nullable: bool,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Unknown.
    Null,
    /// A whole number.
    Int(i64),
    /// A real number.
    Real(f64),
    /// A text.
    Text(ByteArray),
}

impl Cell {
    /// A counter; above 2^63 it is held there.
    pub fn count(value: u64) -> Cell {
        Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// A text.
    pub fn text(value: &str) -> Cell {
        Cell::Text(ByteArray::from(value.as_bytes().to_vec()))
    }

    /// `value`, or null.
    pub fn or_null<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or(Cell::Null, cell)
    }
}

/// A Parquet file that is being written.
pub(crate) struct Table<W: Write + Send = BufWriter<File>> {
    path: PathBuf,
    columns: &'static [Column],
    rows: usize,
    buffers: Vec<Buffer>,
    writer: SerializedFileWriter<W>,
}

impl Table {
    /// Begins the file at `path`.
    pub fn create(path: &Path, columns: &'static [Column]) -> Result<Self, ExportError> {
        let file = File::create(path).map_err(|source| ExportError::Write { path: path.to_owned(), source })?;
        Table::new(BufWriter::new(file), path, columns)
    }

    /// Writes the rest and makes sure that it is on disk.
    pub fn finish(mut self) -> Result<(), ExportError> {
        self.flush()?;
        let Table { path, writer, .. } = self;
        let file = writer.into_inner().map_err(|source| ExportError::Table { path: path.clone(), source })?;
        let sync = file.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        sync.map_err(|source| ExportError::Write { path, source })
    }
}

impl<W: Write + Send> Table<W> {
    fn new(into: W, path: &Path, columns: &'static [Column]) -> Result<Self, ExportError> {
        let table_error = |source| ExportError::Table { path: path.to_owned(), source };
        let schema = schema(columns).map_err(table_error)?;
        let properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            // an index of every page would be larger than the pages
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        let writer = SerializedFileWriter::new(into, schema, Arc::new(properties)).map_err(table_error)?;
        let buffers = columns.iter().map(Buffer::of).collect();
        Ok(Table { path: path.to_owned(), columns, rows: 0, buffers, writer })
    }

    /// Adds a row; its cells stand in the order of the columns.
    pub fn push(&mut self, row: Vec<Cell>) -> Result<(), ExportError> {
        assert_eq!(row.len(), self.columns.len(), "a row has one cell for each column");
        for (buffer, cell) in self.buffers.iter_mut().zip(row) {
            buffer.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.write_group().map_err(|source| ExportError::Table { path: self.path.clone(), source })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for buffer in &mut self.buffers {
            let Some(mut writer) = group.next_column()? else { break };
            buffer.write(&mut writer)?;
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        self.writer.flush()?;
        Ok(())
    }
}

fn schema(columns: &[Column]) -> Result<Arc<Type>, ParquetError> {
    let mut fields = Vec::new();
    for column in columns {
        let (physical, logical) = match column.holds {
            Holds::Int32 => (Physical::INT32, None),
            Holds::Int64 => (Physical::INT64, None),
            Holds::Double => (Physical::DOUBLE, None),
            Holds::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical).with_repetition(repetition);
        fields.push(Arc::new(field.with_logical_type(logical).build()?));
    }
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}

/// The rows of one column that are not written yet.
struct Buffer {
    values: Values,
    /// 1 for a value and 0 for null; only where there may be nulls.
    levels: Option<Vec<i16>>,
}

/// Values without the nulls between them.
enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl Buffer {
    fn of(column: &Column) -> Self {
        let values = match column.holds {
            Holds::Int32 => Values::Int32(Vec::new()),
            Holds::Int64 => Values::Int64(Vec::new()),
            Holds::Double => Values::Double(Vec::new()),
            Holds::Text => Values::Text(Vec::new()),
        };
        Buffer { values, levels: column.nullable.then(Vec::new) }
    }

    fn push(&mut self, cell: Cell) {
        let defined = match (&mut self.values, cell) {
            (Values::Int32(values), Cell::Int(value)) => {
                values.push(i32::try_from(value).unwrap_or(i32::MAX));
                true
            }
            (Values::Int64(values), Cell::Int(value)) => {
                values.push(value);
                true
            }
            (Values::Double(values), Cell::Real(value)) => {
                values.push(value);
                true
            }
            (Values::Text(values), Cell::Text(value)) => {
                values.push(value);
                true
            }
            (_, Cell::Null) => false,
            (_, cell) => unreachable!("{cell:?} is none of its column's"),
        };
        match &mut self.levels {
            Some(levels) => levels.push(defined.into()),
            None => assert!(defined, "a column that is always known has a value in every row"),
        }
    }

    /// Writes them and empties it.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Int32(values) => write::<Int32Type>(writer, values, levels),
            Values::Int64(values) => write::<Int64Type>(writer, values, levels),
            Values::Double(values) => write::<DoubleType>(writer, values, levels),
            Values::Text(values) => write::<ByteArrayType>(writer, values, levels),
        }?;
        self.levels.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

fn write<D: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<D::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    writer.typed::<D>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    const COLUMNS: &[Column] = &[
        Column { name: "second", holds: Holds::Int32, nullable: false },
        Column { name: "node", holds: Holds::Text, nullable: false },
        Column { name: "sent", holds: Holds::Int64, nullable: true },
        Column { name: "cpu_percent", holds: Holds::Double, nullable: true },
    ];

    fn bytes(rows: usize) -> Vec<u8> {
        let mut table = Table::new(Vec::new(), Path::new("t.parquet"), COLUMNS).unwrap();
        for i in 0..rows {
            let sent = if i % 3 == 0 { Cell::Null } else { Cell::count(i as u64) };
            table.push(vec![Cell::Int(i as i64), Cell::text(["a", "b"][i % 2]), sent, Cell::Real(0.5)]).unwrap();
        }
        table.flush().unwrap();
        table.writer.into_inner().unwrap()
    }

    #[test]
    fn rows_come_back_in_bounded_groups() {
        let rows = GROUP_ROWS * 2 + 1;
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes(rows))).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let mut read = 0;
        for (i, row) in reader.get_row_iter(None).unwrap().enumerate() {
            let row = row.unwrap();
            assert_eq!((row.get_int(0).unwrap(), row.get_string(1).unwrap().as_str()), (i as i32, ["a", "b"][i % 2]));
            assert_eq!(row.get_long(2).ok(), (i % 3 != 0).then_some(i as i64));
            read += 1;
        }
        assert_eq!(read, rows);
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        assert_eq!(bytes(100), bytes(100));
        assert_ne!(bytes(100), bytes(101));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        if let Ok(mut table) = Table::create(Path::new("/dev/full"), COLUMNS) {
            table.push(vec![Cell::Int(0), Cell::text("a"), Cell::Null, Cell::Null]).unwrap();
            let error = table.finish().unwrap_err();
            assert_eq!(error.to_string(), "/dev/full cannot be written");
        }
    }
}
