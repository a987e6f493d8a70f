# All input is read before the first change: input cut short changes nothing.
take() {
  text=
  while IFS= read -r line; do
    [[ $line == '@@causeway end' ]] && return
    text+=$line$'\n'
  done
  echo 'the input ended early; nothing was changed' >&2
  exit 65
}
take && first=$text
take && sysctls=$text
take && legacy_rules=$text
take && nft_rules=$text
take && last=$text
take && flows=$text
