#!{bash}
while [ $# -gt 0 ]; do
    case $1 in
    -?) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
exec {start}"$@"
