# The listing, or that it is the one that the reader has.
text=$(listing)
if [[ $known && $(printf '%s' "$text" | sha1sum 2>/dev/null) == "$known "* ]]; then
  echo '@@causeway same'
else
  printf '%s\n' "$text"
fi
finish 0
