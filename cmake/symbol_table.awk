# Makes the symbol table's assembly from `nm -n -S -C` of a linked image (layout: firmware/boot/src/symbols.cpp).
# Plain POSIX awk. Input lines: ADDRESS [SIZE] TYPE NAME, sorted by address.

# Removes the text between < and > at the end of a name part, but keeps operator<, <<, ->, <=> and the like.
function strip_templates(s,    out, i, c, depth, parens, rest, op) {
  out = ""; depth = 0; parens = 0; i = 1
  while (i <= length(s)) {
    rest = substr(s, i)
    if (depth == 0 && match(rest, /^operator(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>)/)) {
      op = substr(rest, 1, RLENGTH); out = out op; i += RLENGTH; continue
    }
    c = substr(s, i, 1)
    if (depth > 0 && c == "(") parens++
    else if (depth > 0 && c == ")") parens--
    else if (c == "<" && parens == 0) depth++
    else if (c == ">" && parens == 0) depth--
    else if (depth == 0) out = out c
    ++i
  }
  return out
}

# Removes the text between ( and ).
function strip_parameters(s,    out, i, c, depth) {
  out = ""; depth = 0
  for (i = 1; i <= length(s); ++i) {
    c = substr(s, i, 1)
    if (c == "(") depth++
    else if (c == ")") depth--
    else if (depth == 0) out = out c
  }
  return out
}

# The name of a template function has its return type in front, and that of a thunk its kind: cut up to the last blank,
# but keep "operator new" etc.
function strip_return_type(s,    at, head) {
  at = match(s, /operator [a-zA-Z]/)
  head = at > 0 ? substr(s, 1, at - 1) : s
  sub(/ +$/, "", head)
  sub(/^.* /, "", head)
  return at > 0 ? head substr(s, at) : head
}

function shorten(s) {
  gsub(/\(anonymous namespace\)::/, "", s)
  gsub(/ \[clone [^\]]*\]/, "", s)
  gsub(/\{lambda\([^{}]*\)#[0-9]+\}/, "lambda", s)
  gsub(/\[abi:[^\]]*\]/, "", s)
  gsub(/operator\(\)/, "operator@call", s)
  s = strip_parameters(strip_templates(s))
  sub(/( const| volatile| &| &&)+$/, "", s)
  s = strip_return_type(s)
  sub(/operator@call/, "operator()", s)
  sub(/lambda::(_FUN|operator\(\))$/, "lambda", s)
  sub(/\.(constprop|isra|part|cold|lto_priv).*$/, "", s)
  return s
}

function hex(s,    i, n) {
  n = 0
  for (i = 1; i <= length(s); ++i) n = n * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
  return n
}

BEGIN { count = 0; total = 0 }

# The preference among names of one address: functions with a size before labels.
function rank(type, size, name) {
  if (name ~ /^(__|_[A-Z])/) return 0
  return 1 + (size > 0) * 2 + (type == "T")
}

function add(address, size, name) {
  start[count] = address; bytes[count] = size; label[count] = name; ++count
}

{
  # Offsets count from the start of the text, so that numbers stay exact. All addresses have the same upper half.
  address = hex(substr($1, length($1) - 7))
  if ($2 ~ /^[0-9a-f]+$/ && length($2) == length($1)) { size = hex(substr($2, length($2) - 7)); type = $3; from = 4 }
  else { size = 0; type = $2; from = 3 }
  name = $from
  for (i = from + 1; i <= NF; ++i) name = name " " $i
  if (name == "__text_start") text_start = address
  if (name == "__text_end") text_end = address
  if (type ~ /^[bBdDrRsSgGV]$/ && (size == 0 || name ~ / for |^(__|\.L|\$)/)) next  # labels, and names made by the compiler
  if (type !~ /^[tTwWvVbBdDrRsSgG]$/ || name ~ /^(\.L|\$)/) next
  if (total > 0 && at[total - 1] == address) {
    if (rank(type, size, name) <= preferred) next
    --total
  }
  preferred = rank(type, size, name)
  at[total] = address; sizes[total] = size; names[total] = name; ++total
}

END {
  if (text_end == 0 || total == 0) { print "symbol_table.awk: no text symbols" > "/dev/stderr"; exit 1 }
  for (i = 0; i < total && at[i] < text_end; ++i) {
    if (at[i] < text_start) continue
    following = text_end
    if (i + 1 < total && at[i + 1] < text_end) following = at[i + 1]
    size = sizes[i] > 0 && at[i] + sizes[i] <= following ? sizes[i] : following - at[i]
    # A label inside a function (assembly) does not split it: the label has no size and lies before the function's end.
    if (sizes[i] == 0 && count > 0 && at[i] < start[count - 1] + full[count - 1]) continue
    full[count] = sizes[i] > 0 ? sizes[i] : size
    add(at[i], sizes[i] > 0 ? sizes[i] : size, names[i] ~ /^__/ && sizes[i] == 0 ? "" : shorten(names[i]))
  }
  reach = text_end
  for (; i < total; ++i) {  # variables
    if (sizes[i] == 0 || at[i] < reach) continue
    add(at[i], sizes[i], shorten(names[i]))
    reach = at[i] + sizes[i]
  }
  per_block = 16
  named = 0
  qualifiers = 1; qualifier[""] = 0; qualifier_text[0] = ""
  print "  .section .qm_symbols, \"a\", @progbits"
  print "  .globl __qm_symbol_table_start, __qm_symbol_table_end"
  print "__qm_symbol_table_start:"
  print "table_start:"
  blocks = int((count + per_block - 1) / per_block)
  printf "  .4byte %d, %d, table_end - table_start, qualifiers - table_start, %d, names_count\n", blocks, count, reach - text_start
  for (b = 0; b < blocks; ++b) printf "  .4byte %d, block%d - table_start\n", start[b * per_block] - text_start, b
  for (i = 0; i < count; ++i) {
    if (i % per_block == 0) { printf "block%d:\n", i / per_block; distance = 0 }
    else distance = start[i] - start[i - 1]
    end = i + 1 < count ? start[i + 1] : reach
    gap = end - start[i] - bytes[i]
    if (gap < 0) gap = 0
    name = label[i]; q = 0
    cut = match(name, /::operator[^a-zA-Z0-9_]/)
    if (cut == 0) cut = match(name, /::[^:]*$/)
    if (cut > 0) {
      scope = substr(name, 1, cut + 1)
      if (!(scope in qualifier) && qualifiers < 256) { qualifier[scope] = qualifiers; qualifier_text[qualifiers++] = scope }
      if (scope in qualifier) { q = qualifier[scope]; name = substr(name, cut + 2) }
    }
    if (name != "") ++named
    printf "  .uleb128 %d\n  .uleb128 %d\n  .byte %d\n  .asciz \"%s\"\n", distance, gap, q, name
  }
  print "qualifiers:"
  for (i = 0; i < qualifiers; ++i) printf "  .asciz \"%s\"\n", qualifier_text[i]
  print "table_end:"
  print "__qm_symbol_table_end:"
  printf "  .set names_count, %d\n", named
}
