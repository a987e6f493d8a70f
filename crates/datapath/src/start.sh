# Reads a script and its input, and runs the one on the other: a line with the length of both, then both. All of it is
# read before anything is done: input cut short changes nothing. A tool reads it, because the shell takes a pipe byte
# by byte; it may read ahead, because nothing follows until the script has answered.
export LC_ALL=C
input= size=-1
read -r begin length
if [[ "$begin $length" =~ ^[0-9]{1,9}\ [0-9]{1,9}$ ]]; then
  size=$((begin + length))
  if command -v head >/dev/null; then
    # The dot keeps the line ends before it.
    input=$(head -c "$size"; echo .)
    input=${input%.}
  else
    IFS= read -r -N "$size" input
  fi
fi
if [[ ${#input} -eq $size ]]; then
  script=${input:0:begin}
  input=${input:begin}
else
  script="refuse 65 'the input ended early; nothing was changed'"
fi
eval "$script"
