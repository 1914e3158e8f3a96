"""A rank that starts processes which detach themselves in one way or another, and sleep for the seconds given."""

import subprocess
import sys
import time

nap = ["sleep", sys.argv[1]]
subprocess.Popen(nap)
subprocess.Popen(nap, start_new_session=True)
subprocess.Popen(["sh", "-c", f"nohup {' '.join(nap)} >/dev/null 2>&1 & exit"])
subprocess.Popen(["sh", "-c", f"trap '' TERM HUP; {' '.join(nap)} & wait"])
if len(sys.argv) > 2:
    subprocess.Popen(["env", "-i", "/bin/sleep", sys.argv[1]], start_new_session=True)
print("up", flush=True)
time.sleep(600)
