# A repository with history: log, grep, pack, check, clone.
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=Guest GIT_AUTHOR_EMAIL=guest@example.org GIT_AUTHOR_DATE='2001-02-03T04:05:06Z'
export GIT_COMMITTER_NAME=Guest GIT_COMMITTER_EMAIL=guest@example.org GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'

if [ "$1" = prepare ]; then
    git -c init.defaultBranch=main init -q table
    cd table
    git config pack.threads 1
    commit=0
    while [ "$commit" -lt 8 ]; do
        commit=$((commit + 1))
        file=0
        while [ "$file" -lt 40 ]; do
            file=$((file + 1))
            line=0
            while [ "$line" -lt 40 ]; do
                line=$((line + 1))
                echo "file $file, line $line, written in commit $((commit - (line + file) % 3))"
            done > "file-$file"
        done
        git add -A
        git commit -q -m "Commit $commit"
    done
    exit
fi

rm -rf copy
cd table
"$PROGRAM" log --stat -p | cksum
"$PROGRAM" blame file-7 | cksum
"$PROGRAM" grep -c 'commit 1' | cksum
"$PROGRAM" repack -q -a -f
"$PROGRAM" fsck --full --no-progress
"$PROGRAM" clone -q --no-local . ../copy
"$PROGRAM" -C ../copy log --format='%H %s'
