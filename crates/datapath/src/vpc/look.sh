# The listing, or that it is the one that the reader has.
listing
if [[ $known && $(printf '%s' "$listed" | sha1sum 2>/dev/null) == "$known "* ]]; then
  echo '@@causeway same'
else
  printf '%s\n' "$listed"
fi
finish 0
