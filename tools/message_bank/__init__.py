"""Makes the bank of error messages (`harness/diagnosis/messages.bank`) from the sources of libraries.

    sources        which libraries (`libraries.yaml`); downloads them and yields their Python files
    extraction     a file's messages: what is raised, asserted or logged as an error, by its syntax tree
    templates      an expression as a template with named holes
    merging        equal messages of files, versions and libraries become one
    families       the family of each, by rules (`rules.yaml`) and what was reviewed (`review.yaml`)
    __main__       the command line

`python -m tools.message_bank --cache DIR` downloads about 2.8 GB into DIR, reads 46,000 files
(five CPU minutes) and writes the file.
"""
