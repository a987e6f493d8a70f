# One line of input: the digest of the listing that the reader has, or nothing.
read -r -t 5 known
