#!{bash}
[ "$1" = run ] || exit 0
shift
module=
while [ $# -gt 0 ]; do
    case $1 in
    --with | --extra | --group | --python | --name | --env-file | --index | --package | --environment | -[pne]) shift 2 ;;
    -m | --module) module=-m; shift ;;
    -*) shift ;;
    *) break ;;
    esac
done
case $module$1 in
-m*) exec python -m "$@" ;;
*.py) exec python "$@" ;;
*) exec "$@" ;;
esac
