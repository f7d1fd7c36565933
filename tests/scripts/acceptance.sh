# What an agent does in a working tree: compared, line by line and file by file, with /bin/bash.
set -u
mkdir -p project/{src,tests,docs,data} project/.cache
cd project
cat > README.md <<'EOF'
# Sales report
Run `make report`.
TODO: describe the format
EOF
cat > src/totals.py <<'EOF'
import csv
# TODO: handle refunds
def totals(rows):
    return sum(float(row["price"]) for row in rows)
EOF
cat > src/main.py <<EOF
from totals import totals
# TODO: read arguments
print("version $((1 + 1)).0")
EOF
for region in north south east west; do
  for month in 01 02 03; do
    {
      echo "id,region,price"
      i=1
      while [ $i -le 20 ]; do
        echo "$i,$region,$(( (i * 7 + 10#$month * 13) % 50 )).50"
        i=$((i + 1))
      done
    } > "data/$region-$month.csv"
  done
done
ls data | wc -l
count_lines() {
  local total=0 file
  for file in "$@"; do
    total=$((total + $(wc -l < "$file")))
  done
  echo "$total"
}
echo "lines: $(count_lines data/*.csv)"
awk -F, 'FNR > 1 { sum[$2] += $3; n[$2]++ } END { for (r in sum) printf "%s %.2f %d\n", r, sum[r], n[r] }' data/*.csv | sort > data/summary.txt
cat data/summary.txt
grep -rn TODO . | sort
grep -rl TODO src | sort | while read -r file; do
  sed -i 's/TODO/DONE/' "$file"
done
grep -c DONE src/main.py src/totals.py
sed -n '2,3p' README.md
sed -i -e '/TODO/d' -e 's/Sales/Monthly sales/' README.md
cat README.md
cat > data/config.json <<'EOF'
{"name": "report", "regions": ["north", "south"], "limits": {"rows": 20, "strict": true}}
EOF
jq -r '.regions[]' data/config.json
jq '.limits.rows += 5 | .regions += ["east"]' data/config.json > data/config.new
mv data/config.new data/config.json
jq -c . data/config.json
find . -name '*.csv' -newer /nonexistent 2>/dev/null | wc -l
find . -type f -name '*-01.csv' | sort | head -n 2
find data -name '*-03.csv' -exec cat {} + | grep -c north
cut -d, -f2 data/*.csv | sort | uniq -c | sort -rn | head -n 3 | awk '{ print $2 }'
tar czf backup.tgz src docs data/summary.txt
mkdir restore && tar xzf backup.tgz -C restore
diff src/main.py restore/src/main.py && echo "restored"
cp -r src src-copy
rm src-copy/main.py
ln -s src/totals.py latest
cat latest | head -n 1
[ -L latest ] && readlink latest
mv src-copy docs/old
echo "first" > log.txt
echo "second" >> log.txt
printf '%s\n' third fourth | tee -a log.txt | wc -l
tac log.txt
tr a-z A-Z < log.txt | sed 's/^/> /'
paste -d: <(cut -c1-2 log.txt) <(seq 4)
case "$(basename "$PWD")" in
  pro*) echo "in project" ;;
  *) echo "elsewhere" ;;
esac
declare -A colour=([apple]=red [pear]=green)
for fruit in apple pear; do echo "$fruit=${colour[$fruit]}"; done
text="hello world"
echo "${text^^} ${#text} ${text/world/there} ${text:6}"
files=(data/*-0[12].csv)
echo "${#files[@]} ${files[0]##*/}"
if ! cat missing.txt 2> errors.txt; then echo "status $?"; fi
wc -l < errors.txt
false || true && echo chained
(cd src && touch empty.py && ls)
chmod 755 src/main.py
chmod 600 log.txt
test -x src/main.py && echo executable
rmdir .cache
rm -rf restore backup.tgz
echo "$(sha256sum data/north-01.csv | cut -c1-12)"
seq 1 30 | xargs -n 10 echo | sed 's/ /+/g'
nl -ba log.txt | tail -n 1 | tr -s ' \t' ' '
trap 'echo bye' EXIT
comm -12 <(sort data/north-01.csv) <(sort data/north-02.csv) | head -n 1
printf '%05.1f|%-6s|%x\n' 3.14159 ab 255
mkdir -p out && for n in $(seq 1 300); do echo "line $n" > "out/file-$n.txt"; done
cat out/*.txt | sort -k2 -n | tail -n 1
ls out | grep -c txt
find out -name '*9.txt' | xargs grep -h line | sort -t' ' -k2n | head -n 2
rm out/file-?00.txt && ls out | wc -l
