# The listing, or that it is the one whose digest the reader has.
listing
if [[ $input && $(printf '%s' "$listed" | sha1sum 2>/dev/null) == "$input "* ]]; then
  echo '@@causeway same'
else
  printf '%s\n' "$listed"
fi
finish 0
