# git: a history with merges, cloned, read in many ways, packed and checked. Dates and names are fixed.
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME="$PWD"

commit() {
    GIT_AUTHOR_DATE="@$((1700000000 + $1 * 60)) +0000"
    GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
    git add -A
    git commit -q -m "change $1"
}

git -c init.defaultBranch=main init -q work
cd work
mkdir -p source/deep
for i in $(seq 1 60); do
    seq "$i" $((i + 400)) > "source/file$((i % 12))"
    echo "line $i" >> source/deep/log
    commit "$i"
done
git checkout -q -b side HEAD~20
seq 1 3000 > source/side
commit 61
git checkout -q main
git merge -q --no-edit side
git tag -a -m "a tag" v1
cd ..

git clone -q --no-local work copy
cd copy
git log --stat -n 100
git log --graph --oneline | cksum
git blame source/deep/log | cksum
git diff HEAD~30 | cksum
git grep -n 'line 4' | head
git rev-list --objects --all | sort | cksum
git repack -q -a -d -f --depth=20 --window=20
git gc -q --aggressive --prune=now
git fsck --full --strict 2>&1
git archive HEAD | tar -tf - | sort
git count-objects -v | grep -E '^(count|in-pack|garbage)'
git bundle create -q ../bundle --all
git bundle verify -q ../bundle
