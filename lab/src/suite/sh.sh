# Strings, functions, subshells and pipes: what shell scripts are made of.
[ "$1" = run ] || exit 0

reverse() {
    rest=$1 turned=
    while [ -n "$rest" ]; do
        tail=${rest#?}
        turned=${rest%"$tail"}$turned
        rest=$tail
    done
    echo "$turned"
}

number=0
while [ "$number" -lt 400 ]; do
    number=$((number + 1))
    turned=$(reverse "guest-$number-of-the-table")
    case $number in
        *7) echo "$number seven $turned" ;;
        *[02468]) echo "$number even $turned" ;;
        *) echo "$number odd $turned" ;;
    esac
done > lines

list=
while read -r number kind turned; do
    list="$list $number:$kind:${#turned}"
done < lines
echo "${#list}"
sort -k2,2 -k1,1n lines | cksum
cut -d ' ' -f 2 lines | sort | uniq -c
