# A launch script that shows the kernel's last word on the training when it dies, as careful people's do.
python grow.py 400
status=$?
if [ $status -ne 0 ]; then
    dmesg 2>/dev/null | grep -i 'killed process' | tail -n 1
fi
exit $status
