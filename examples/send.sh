#!/bin/sh
# Hand over an email with curl, then ask what became of it.
#
#   examples/send.sh http://127.0.0.1:8000 "$(wireroom token add programme-site)" ada@example.com
set -eu

address=$1
token=$2
to=$3

place=$(curl --fail-with-body --silent --show-error --output /dev/null \
  --write-out '%header{location}' \
  --header "Authorization: Bearer $token" \
  --header "Content-Type: application/json" \
  --header "Idempotency-Key: invitation-482-$to" \
  --data "{\"channel\": \"email\", \"to\": \"$to\", \"subject\": \"Your talk\", \"text\": \"Hello\"}" \
  "$address/api/v1/dispatches")

curl --fail-with-body --silent --show-error --header "Authorization: Bearer $token" "$address$place"
