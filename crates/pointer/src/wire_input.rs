/// PowerShell pipes and Cursor on Windows put a byte order mark before what they pass on (ask 14). One is tolerated in
/// requests and hook input, never in a state file.
pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}
