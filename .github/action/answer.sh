# The step of action.yml that asks dsregress: writes the comment and the job's summary, and the exit code as an output, so
# that what was found is kept before the last step ends the job with it.
set -euo pipefail
dsregress=${DSREGRESS:-$RUNNER_TEMP/dsregress/bin/dsregress}
out=$RUNNER_TEMP/dsregress-comment
comment=$out/comment.md

# Options of a value for each line of an input: add --config "$CONFIG".
arguments=()
add() {
    local line
    while IFS= read -r line; do
        if [ -n "$line" ]; then arguments+=("$1" "$line"); fi
    done <<< "$2"
}

case $JOB in
bump)
    add --requirement "$PACKAGES"
    add --config "$CONFIG"
    add --program "$PROGRAM"
    add --gpu "$CARD"
    add --ignore "$IGNORE"
    command=(audit --against "$AGAINST" --markdown "$comment" --json "$out/audit.json")
    ;;
change)
    add --program "$PROGRAM"
    if [ -n "$PROGRAM" ]; then add --gpu "$CARD"; fi
    read -ra versions <<< "$VERSIONS"
    arguments+=("${versions[@]}")
    command=(regress --source "$SOURCE" --against "$AGAINST" --rounds 0 --fail-on "$FAIL_ON"
        --export "comment=$comment" --json "$out/report.json")
    ;;
nightly)
    command=(watch --out "$out/new")
    ;;
*)
    echo "::error::no such job: $JOB; there are: bump, change, nightly, comment"
    exit 2
    ;;
esac

code=0
"$dsregress" "${command[@]}" "${arguments[@]}" || code=$?
# Not known: the command that measures it is part of the answer, quoted for a shell.
if [ "$JOB" = bump ] && [ "$code" = 4 ] && [ "$MEASURE" = true ]; then
    measure=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("measure", ""))' "$out/audit.json")
    eval "words=($measure)"
    if [ "${#words[@]}" -gt 1 ]; then
        code=0
        "$dsregress" "${words[@]:1}" --rounds 0 --fail-on "$FAIL_ON" --export "comment=$comment" \
            --json "$out/report.json" || code=$?
    fi
fi
if [ "$JOB" = nightly ] && [ -e "$out/new/comment.md" ]; then
    cp "$out/new/comment.md" "$comment"
fi
"$dsregress" clean --limit 4GB || true # GitHub keeps 10 GB of caches for a repository
touch "$comment"
cat "$comment" >> "$GITHUB_STEP_SUMMARY"
echo "code=$code" >> "$GITHUB_OUTPUT"
