# Two pipes and four forks, so many times: what shell scripts do all day.
left=${1:-400}
while [ "$left" -gt 0 ]; do
    echo "$left" | while read -r word; do echo "$word"; done | { read -r word; echo "$word" > /dev/null; }
    (:)
    left=$((left - 1))
done
