//! A table whose columns are known only when it is written, such as a sweep's: whole columns into one Parquet file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::error::ExportError;

/// A column with its name; unknown values are null.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedColumn {
    /// Its name, with the unit at the end.
    pub name: String,
    /// Its values, a value for each row.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Real numbers.
    Real(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Int(v) => v.len(),
            Values::Real(v) => v.len(),
            Values::Text(v) => v.len(),
        }
    }
}

/// Writes the columns to `path`; the same columns give the same bytes.
///
/// # Errors
/// When the file cannot be written.
///
/// # Panics
/// When the columns have different lengths.
pub fn write_columns(path: &Path, columns: &[NamedColumn]) -> Result<(), ExportError> {
    assert!(columns.windows(2).all(|w| w[0].values.len() == w[1].values.len()), "columns are of one length");
    let write_error = |source| ExportError::Write { path: path.to_owned(), source };
    let table_error = |source| ExportError::Table { path: path.to_owned(), source };
    let file = BufWriter::new(File::create(path).map_err(write_error)?);
    let file = written(file, columns).map_err(table_error)?;
    let file = file.into_inner().map_err(|why| write_error(why.into_error()))?;
    file.sync_all().map_err(write_error)
}

fn written(file: BufWriter<File>, columns: &[NamedColumn]) -> Result<BufWriter<File>, ParquetError> {
    let fields: Result<Vec<_>, ParquetError> = columns.iter().map(|column| field(column).map(Arc::new)).collect();
    let schema = Arc::new(Type::group_type_builder("schema").with_fields(fields?).build()?);
    let properties = WriterProperties::builder()
        .set_created_by("rehearsal-export".to_owned())
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for NamedColumn { values, .. } in columns {
        let mut into = group.next_column()?.expect("the schema has a field for each column");
        match values {
            Values::Int(v) => {
                let (known, levels) = split(v);
                into.typed::<Int64Type>().write_batch(&known, Some(&levels), None)?;
            }
            Values::Real(v) => {
                let (known, levels) = split(v);
                into.typed::<DoubleType>().write_batch(&known, Some(&levels), None)?;
            }
            Values::Text(v) => {
                let (known, levels) = split(v);
                let known: Vec<ByteArray> = known.into_iter().map(|text| ByteArray::from(text.into_bytes())).collect();
                into.typed::<ByteArrayType>().write_batch(&known, Some(&levels), None)?;
            }
        }
        into.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(column: &NamedColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.values {
        Values::Int(_) => (Physical::INT64, None),
        Values::Real(_) => (Physical::DOUBLE, None),
        Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let builder = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
    builder.with_logical_type(logical).build()
}

/// The known values, and for each row whether it has one.
fn split<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (values.iter().flatten().cloned().collect(), values.iter().map(|v| i16::from(v.is_some())).collect())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    #[test]
    fn columns_come_back_with_their_gaps() {
        let column = |name: &str, values| NamedColumn { name: name.to_owned(), values };
        let columns = [
            column("nodes.camera.count", Values::Int(vec![Some(1), None])),
            column("p99_ms", Values::Real(vec![None, Some(2.5)])),
            column("status", Values::Text(vec![Some("VALID".to_owned()), Some("ü".to_owned())])),
        ];
        let path = std::env::temp_dir().join(format!("rehearsal-columns-{}.parquet", std::process::id()));
        write_columns(&path, &columns).unwrap();
        let first = std::fs::read(&path).unwrap();
        write_columns(&path, &columns).unwrap();
        assert!(first == std::fs::read(&path).unwrap(), "the same columns give other bytes");
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((rows[0].get_long(0).ok(), rows[1].get_long(0).ok()), (Some(1), None));
        assert_eq!((rows[0].get_double(1).ok(), rows[1].get_double(1).ok()), (None, Some(2.5)));
        assert_eq!((rows.len(), rows[1].get_string(2).unwrap().as_str()), (2, "ü"));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let columns = [NamedColumn { name: "x".to_owned(), values: Values::Int(vec![Some(1)]) }];
        if Path::new("/dev/full").exists() {
            assert!(write_columns(Path::new("/dev/full"), &columns).is_err());
        }
    }
}
