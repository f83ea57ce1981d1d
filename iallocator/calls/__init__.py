"""Record each run of the plugin by Ganeti: a line in a log, and files that repeat the run.

A captured call is a number and these files, named as the cases of `replay`:

=======================  ========================================================
NUMBER.args              the options of the command line, written before the work
NUMBER.conf              the options of the configuration file, if there are any
NUMBER.request.json.gz   the request as received, written before the work
NUMBER.response.json.gz  the answer, or the error of an invalid request; absent
                         after a crash
NUMBER.call.json         time, duration and outcome; absent if the process was
                         killed
=======================  ========================================================

If recording fails, the request is answered all the same, and the answer reports the error.
"""
