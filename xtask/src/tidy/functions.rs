//! Finds functions and measures them.

use super::lexer;

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// Lines from its `fn` to its closing brace, both included.
    pub lines: usize,
}

/// The functions in `code` (see [`lexer::code`]), in order; inner functions count in their outer one too.
pub fn functions(code: &str) -> Vec<Function<'_>> {
    lexer::find(code, "fn").filter_map(|at| function_at(code, at)).collect()
}

/// `None` for function pointers, macro patterns and declarations without a body.
fn function_at(code: &str, at: usize) -> Option<Function<'_>> {
    let after = code[at + 2..].trim_start();
    let len = after.bytes().take_while(|b| lexer::is_word(*b)).count();
    let name = after.get(..len).filter(|name| !name.is_empty())?;
    let item = &code[at..lexer::item_end(code, at)];
    item.ends_with('}').then(|| Function { name, line: lexer::line_of(code, at), lines: item.lines().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_with_signature_and_braces() {
        let code = "trait A {\n    fn b(&self) -> [u8; 2];\n    fn c(\n        &self,\n    ) {\n        if d {\n        }\n    }\n}\ntype E = fn(u8);\nfn f() {}\n";
        let found: Vec<_> = functions(code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("c", 3, 6), ("f", 11, 1)]);
    }
}
