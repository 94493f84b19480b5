# A plain launch script: when the training dies, the shell says how.
python fate.py "$@"
status=$?
echo "trainer exited with status $status"
exit $status
