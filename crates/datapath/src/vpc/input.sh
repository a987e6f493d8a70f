# The first line is the term (-: none) and the length of each part; the parts follow.
set -- ${input%%$'\n'*}
term=$1
take() {
  text=${input:at:$1}
  at=$((at + $1))
}
at=$((${#input} - $2 - $3 - $4 - $5 - $6 - $7))
take "$2" && first=$text
take "$3" && sysctls=$text
take "$4" && legacy_rules=$text
take "$5" && nft_rules=$text
take "$6" && last=$text
take "$7" && flows=$text
