# The step of action.yml that comments: the text of a finished run into one comment of its pull request. Runs nothing of the
# pull request; pull_request_comment.py bounds, quotes and disarms the text. The number comes from GitHub, by the branch that
# was measured: what an artifact says of it would be the fork's word.
set -euo pipefail
report=$RUNNER_TEMP/dsregress-comment
number=$(gh api --method GET "repos/$GH_REPO/pulls" -f state=open -f "head=$OWNER:$BRANCH" --jq '.[0].number // empty')
if [ -z "$number" ]; then
    echo "no open pull request of this branch"
    exit 0
fi
gh run download "$RUN" --name dsregress-comment --dir "$report"
python3 "$GITHUB_ACTION_PATH/.github/pull_request_comment.py" "$number" "$report/comment.md"
