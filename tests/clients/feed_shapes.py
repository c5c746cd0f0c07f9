"""Uploads in the shapes of public formats, and parsers of them that share nothing with whered.

Each entry is the upload's bytes, what comes with it, and the records as Python's own parsers read
them: dictionaries with `member`, `longitude`, `latitude`, perhaps `time` in milliseconds, and fields.
"""

import csv
import io
import json
import xml.etree.ElementTree as ET
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

RECORDS = 40


def millis(text, pattern=None, zone=timezone.utc):
    moment = datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return round(moment.timestamp() * 1000)


def at(n):
    return f"{8 + n / 100:.4f}", f"{50 + n / 1000:.5f}"


def clock(n):
    return f"2024-03-10T08:{n % 60:02d}:{n * 7 % 60:02d}"


def record(member, longitude, latitude, time=None, **fields):
    found = {"member": str(member), "longitude": float(longitude), "latitude": float(latitude)}
    if time is not None:
        found["time"] = time
    return found | fields


def rows(text, **options):
    return csv.DictReader(io.StringIO(text, newline=""), **options)


def ais_csv():
    head = "# Timestamp,Type of mobile,MMSI,Latitude,Longitude,Navigational status,ROT,SOG,COG,Heading,IMO,Callsign,Name\r\n"
    lines = []
    for n in range(RECORDS):
        x, y = at(n)
        name = '"O\'NEILL, MARY"' if n % 3 else ""
        speed = f"{n / 10:.1f}" if n % 5 else ""
        lines.append(f"10/03/2024 08:{n:02d}:07,Class A,2190{n:05d},{y},{x},Under way using engine,0.0,{speed},12.5,12,Unknown,OX{n},{name}\r\n")
    text = head + "".join(lines)
    found = [
        record(r["MMSI"], r["Longitude"], r["Latitude"], millis(r["# Timestamp"], "%d/%m/%Y %H:%M:%S"),
               name=r["Name"] or None, speed=float(r["SOG"]) if r["SOG"] else None)
        for r in rows(text)
    ]
    return text.encode(), {}, found


def ais_json():
    lines = []
    for n in range(RECORDS):
        x, y = at(n)
        meta = {"MMSI": 259000000 + n, "MMSI_String": 259000000 + n, "ShipName": f"ÅSE {n}   ", "latitude": float(y),
                "longitude": float(x), "time_utc": f"2024-03-10 08:00:{n:02d}.318353 +0000 UTC"}
        kind = "PositionReport" if n % 4 else "ShipStaticData"
        report = {"MessageID": 1, "Sog": n / 4, "Valid": True}
        lines.append(json.dumps({"MessageType": kind, "MetaData": meta, "Message": {kind: report}}, ensure_ascii=bool(n % 2)))
    text = "\n".join(lines)
    found = []
    for line in text.splitlines():
        message = json.loads(line)
        meta = message["MetaData"]
        time = millis(meta["time_utc"].removesuffix(" UTC"), "%Y-%m-%d %H:%M:%S.%f %z")
        report = message["Message"].get("PositionReport", {})
        found.append(record(meta["MMSI"], meta["longitude"], meta["latitude"], time // 1, name=meta["ShipName"], speed=report.get("Sog")))
    return text.encode(), {}, found


def aircraft():
    planes = []
    for n in range(RECORDS):
        x, y = at(n)
        plane = {"hex": f"3c{n:04x}", "type": "adsb_icao", "mlat": [], "seen": 0.5}
        if n % 4 != 3:
            plane |= {"flight": f"DLH{n}  ", "alt_baro": "ground" if n % 5 == 0 else 30000 + n, "gs": n * 1.5, "lat": float(y), "lon": float(x)}
        planes.append(plane)
    text = json.dumps({"now": 1710057600.25, "messages": 12345, "aircraft": planes}, indent=1)
    document = json.loads(text)
    found = [
        record(p["hex"], p["lon"], p["lat"], int(document["now"] * 1000), flight=p["flight"], altitude=str(p["alt_baro"]), speed=float(p["gs"]))
        for p in document["aircraft"]
        if "lat" in p
    ]
    return text.encode(), {}, found


def opensky():
    states = []
    for n in range(RECORDS):
        x, y = at(n)
        place = [None, None] if n % 7 == 6 else [float(x), float(y)]
        states.append([f"3c{n:04x}", f"DLH{n}   ", "Germany", None if n % 3 == 0 else 1710057000 + n, 1710057600, *place,
                       None if n % 4 == 0 else 1000.5 + n, False, 200.1, 90, 0, None, 1100, "1000", False, 0])
    text = json.dumps({"time": 1710057600, "states": states})
    document = json.loads(text)
    found = [
        record(s[0], s[5], s[6], (s[3] or document["time"]) * 1000, callsign=s[1], country=s[2], altitude=s[7])
        for s in document["states"]
        if s[5] is not None
    ]
    return text.encode(), {}, found


def gtfs_stops():
    lines = ["stop_id,stop_code,stop_name,stop_desc,stop_lat,stop_lon,zone_id"]
    for n in range(RECORDS):
        x, y = at(n)
        name = f'"Am ""Markt"", {n}"' if n % 2 else f"Straße {n}"
        lines.append(f"S{n}:{n % 3},,{name},,{y}, {x},Z")
    text = "\ufeff" + "\r\n".join(lines) + "\r\n"
    found = [record(r["stop_id"], r["stop_lon"], r["stop_lat"], name=r["stop_name"]) for r in rows(text.lstrip("\ufeff"))]
    return text.encode(), {}, found


def gtfs_vehicles():
    entities = []
    for n in range(RECORDS):
        x, y = at(n)
        vehicle = {"trip": {"tripId": f"T{n}", "routeId": "1"}, "position": {"latitude": float(y), "longitude": float(x), "bearing": 12},
                   "vehicle": {"id": f"bus-{n}", "label": "x"}}
        if n % 3:
            vehicle["timestamp"] = str(1710057000 + n)
        if n % 5 == 0:
            del vehicle["vehicle"]
        entities.append({"id": f"e{n}", "vehicle": vehicle})
    text = json.dumps({"header": {"gtfsRealtimeVersion": "2.0", "timestamp": "1710057600"}, "entity": entities})
    document = json.loads(text)
    found = []
    for entity in document["entity"]:
        vehicle = entity["vehicle"]
        time = int(vehicle.get("timestamp", document["header"]["timestamp"])) * 1000
        place = vehicle["position"]
        member = vehicle.get("vehicle", entity)["id"]
        found.append(record(member, place["longitude"], place["latitude"], time, trip=vehicle["trip"]["tripId"]))
    return text.encode(), {}, found


def siri():
    def activity(p, n):
        x, y = at(n)
        return (f"<{p}VehicleActivity><{p}RecordedAtTime>{clock(n)}.{n:03d}+01:00</{p}RecordedAtTime><{p}MonitoredVehicleJourney>"
                f"<{p}LineRef>L&amp;{n % 4}</{p}LineRef><{p}VehicleLocation><{p}Longitude>{x}</{p}Longitude><{p}Latitude>{y}</{p}Latitude>"
                f"</{p}VehicleLocation><{p}VehicleRef>v{n}</{p}VehicleRef></{p}MonitoredVehicleJourney></{p}VehicleActivity>")
    def delivery(p):
        return f"<{p}VehicleMonitoringDelivery version='2.0'>" + "\n".join(activity(p, n) for n in range(RECORDS)) + f"</{p}VehicleMonitoringDelivery>"
    text = ("<?xml version='1.0' encoding='UTF-8'?>\n<ns2:Siri xmlns:ns2='http://www.siri.org.uk/siri' xmlns='urn:other'><ns2:ServiceDelivery>"
            "<ResponseTimestamp>2024</ResponseTimestamp>" + delivery("ns2:") + "</ns2:ServiceDelivery></ns2:Siri>")
    s = "{http://www.siri.org.uk/siri}"
    found = []
    for activity in ET.fromstring(text.encode()).iter(s + "VehicleActivity"):
        journey = activity.find(s + "MonitoredVehicleJourney")
        place = journey.find(s + "VehicleLocation")
        found.append(record(journey.findtext(s + "VehicleRef"), place.findtext(s + "Longitude"), place.findtext(s + "Latitude"),
                            millis(activity.findtext(s + "RecordedAtTime")), line=journey.findtext(s + "LineRef")))
    return text.encode(), {}, found


def netex():
    places = []
    for n in range(RECORDS):
        x, y = at(n)
        places.append(f'<StopPlace version="1" id="NSR:StopPlace:{n}"><Name lang="no">Bø {n}</Name><Centroid><Location><Longitude>{x}</Longitude>'
                      f"<Latitude>{y}</Latitude></Location></Centroid></StopPlace>")
    text = ('<?xml version="1.0" encoding="ISO-8859-1"?><PublicationDelivery xmlns="http://www.netex.org.uk/netex" '
            'xmlns:gml="http://www.opengis.net/gml/3.2"><dataObjects><SiteFrame id="x"><stopPlaces>' + "".join(places) +
            "</stopPlaces></SiteFrame></dataObjects></PublicationDelivery>").encode("iso-8859-1")
    s = "{http://www.netex.org.uk/netex}"
    found = [
        record(p.get("id"), p.findtext(f"{s}Centroid/{s}Location/{s}Longitude"), p.findtext(f"{s}Centroid/{s}Location/{s}Latitude"), name=p.findtext(s + "Name"))
        for p in ET.fromstring(text).iter(s + "StopPlace")
    ]
    return text, {}, found


def datex():
    parts = []
    for n in range(RECORDS):
        x, y = at(n)
        parts.append(f'<situation id="S{n // 2}-{n}" version="1"><situationRecord xsi:type="Accident" id="R{n}" version="1">'
                     f"<situationRecordVersionTime>{clock(n)}+01:00</situationRecordVersionTime><groupOfLocations xsi:type=\"Point\"><pointByCoordinates>"
                     f"<pointCoordinates><latitude>{y}</latitude><longitude>{x}</longitude></pointCoordinates></pointByCoordinates></groupOfLocations>"
                     "</situationRecord></situation>")
    text = ('<d2LogicalModel modelBaseVersion="2" xmlns="http://datex2.eu/schema/2/2_0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
            '<payloadPublication xsi:type="SituationPublication">' + "".join(parts) + "</payloadPublication></d2LogicalModel>")
    s = "{http://datex2.eu/schema/2/2_0}"
    found = []
    for situation in ET.fromstring(text).iter(s + "situation"):
        for r in situation.iter(s + "situationRecord"):
            place = r.find(f"{s}groupOfLocations/{s}pointByCoordinates/{s}pointCoordinates")
            found.append(record(r.get("id"), place.findtext(s + "longitude"), place.findtext(s + "latitude"),
                                millis(r.findtext(s + "situationRecordVersionTime")), situation=situation.get("id")))
    return text.encode(), {}, found


def sumo():
    steps = []
    for step in range(10):
        cars = "".join(f'        <vehicle id="veh{n}" x="{at(n + step)[0]}" y="{at(n)[1]}" angle="90.00" type="DEFAULT" speed="{n + step / 2:.2f}" pos="5.10" lane="e_0" slope="0.00"/>\n' for n in range(step % 5))
        steps.append(f'    <timestep time="{step}.50">\n{cars}    </timestep>\n')
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<!-- generated -->\n<fcd-export>\n' + "".join(steps) + "</fcd-export>\n"
    found = [
        record(v.get("id"), v.get("x"), v.get("y"), int(float(step.get("time")) * 1000), speed=float(v.get("speed")))
        for step in ET.fromstring(text).iter("timestep")
        for v in step
    ]
    return text.encode(), {}, found


def fleet_csv():
    lines = ["Fahrzeug;Datum;Uhrzeit;Länge (°); Breite (°) ;Geschw. (km/h);Ort"]
    for n in range(RECORDS):
        x, y = at(n)
        lines.append(f'LKW Ü{n};{10 + n % 10}.07.2024;0{n % 8}:{n:02d};{x.replace(".", ",")};{y.replace(".", ",")};"{n},5";Köln € {n}')
    text = "\r\n".join(lines).encode("cp1252")
    number = lambda text: float(text.replace(",", "."))
    found = []
    for r in rows(text.decode("cp1252"), delimiter=";"):
        r = {key.strip(): value for key, value in r.items()}
        time = millis(f"{r['Datum']} {r['Uhrzeit']}", "%d.%m.%Y %H:%M", ZoneInfo("Europe/Berlin"))
        found.append(record(r["Fahrzeug"], number(r["Länge (°)"]), number(r["Breite (°)"]), time, speed=number(r["Geschw. (km/h)"])))
    return text, {}, found


def probes():
    lines = ["PROBE_ID,SAMPLE_DATE,LAT,LON,HEADING,SPEED,PROBE_DATA_PROVIDER"]
    for n in range(RECORDS):
        x, y = at(n)
        lines.append(f"{n:032x},2024-03-10 08:00:{n:02d},{y},{x},{n}.0,{n},CONSUMER1")
    text = "\n".join(lines)
    found = [
        record(r["PROBE_ID"], r["LON"], r["LAT"], millis(r["SAMPLE_DATE"], "%Y-%m-%d %H:%M:%S"), heading=int(float(r["HEADING"])))
        for r in rows(text)
    ]
    return text.encode(), {}, found


def owntracks():
    text = json.dumps({"_type": "location", "tid": "ne", "lat": 50.25, "lon": 8.5, "tst": 1710057600, "acc": 12, "batt": 87, "conn": "w"})
    found = json.loads(text)
    headers = {"X-Limit-U": "ann", "X-Limit-D": "phone"}
    return text.encode(), {"headers": headers}, [record("ann/phone", found["lon"], found["lat"], found["tst"] * 1000, battery=found["batt"])]


def traccar():
    positions = []
    for n in range(RECORDS):
        x, y = at(n)
        positions.append({"id": n, "attributes": {"ignition": n % 2 == 0, "motion": True}, "deviceId": n % 7, "protocol": "h02", "fixTime": f"{clock(n)}.000+00:00",
                          "valid": True, "latitude": float(y), "longitude": float(x), "altitude": 0.0, "speed": n / 2, "address": None})
    text = json.dumps(positions)
    found = [
        record(p["deviceId"], p["longitude"], p["latitude"], millis(p["fixTime"]), speed=float(p["speed"]), ignition=str(p["attributes"]["ignition"]).lower())
        for p in json.loads(text)
    ]
    return text.encode(), {}, found


def overland():
    locations = []
    for n in range(RECORDS):
        x, y = at(n)
        properties = {"timestamp": f"{clock(n)}Z", "battery_level": n / 100, "motion": ["driving"], "speed": 4}
        if n % 3:
            properties["device_id"] = f"d{n}"
        elif n % 2:
            properties["device_id"] = ""
        locations.append({"type": "Feature", "geometry": {"type": "Point", "coordinates": [float(x), float(y)]}, "properties": properties})
    text = json.dumps({"locations": locations, "current": {}})
    found = []
    for feature in json.loads(text)["locations"]:
        p = feature["properties"]
        found.append(record(p.get("device_id") or "unnamed", *feature["geometry"]["coordinates"], millis(p["timestamp"]), battery=p["battery_level"]))
    return text.encode(), {}, found


def wigle():
    first = "WigleWifi-1.4,appRelease=2.64,model=Pixel 7,release=13,device=panther,display=X,board=p,brand=google\n"
    head = "MAC,SSID,AuthMode,FirstSeen,Channel,RSSI,CurrentLatitude,CurrentLongitude,AltitudeMeters,AccuracyMeters,Type\n"
    lines = []
    for n in range(RECORDS):
        x, y = at(n)
        ssid = f'"Café, {n}"' if n % 2 else ""
        lines.append(f"1a:9f:ee:5c:71:{n:02x},{ssid},[WPA2-PSK-CCMP][ESS],2024-03-10 08:00:{n:02d},11,{-40 - n},{y},{x},35,3.21,WIFI\n")
    text = head + "".join(lines)
    found = [
        record(r["MAC"], r["CurrentLongitude"], r["CurrentLatitude"], millis(r["FirstSeen"], "%Y-%m-%d %H:%M:%S"), ssid=r["SSID"] or None, rssi=int(r["RSSI"]))
        for r in rows(text)
    ]
    return (first + text).encode(), {}, found


def tcx():
    points = []
    for n in range(RECORDS):
        x, y = at(n)
        place = "" if n % 6 == 5 else f"<Position>\n<LatitudeDegrees>{y}</LatitudeDegrees><LongitudeDegrees>{x}</LongitudeDegrees></Position>"
        heart = f'<HeartRateBpm xsi:type="HeartRateInBeatsPerMinute_t"><Value>{100 + n}</Value></HeartRateBpm>' if n % 4 else ""
        points.append(f"<Trackpoint>\n<Time>{clock(n)}.000Z</Time>{place}<AltitudeMeters>5.0</AltitudeMeters>{heart}</Trackpoint>\n")
    lap = f'<Lap StartTime="x"><Track>{"".join(points)}</Track></Lap>'
    text = ('<?xml version="1.0" encoding="UTF-8"?>\n<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2" '
            'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><Activities><Activity Sport="Running"><Id>2024-03-10T08:00:00Z</Id>' + lap +
            "</Activity></Activities></TrainingCenterDatabase>")
    s = "{http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2}"
    found = []
    for activity in ET.fromstring(text).iter(s + "Activity"):
        for p in activity.iter(s + "Trackpoint"):
            place = p.find(s + "Position")
            heart = p.findtext(f"{s}HeartRateBpm/{s}Value")
            if place is not None:
                found.append(record(activity.findtext(s + "Id"), place.findtext(s + "LongitudeDegrees"), place.findtext(s + "LatitudeDegrees"),
                                    millis(p.findtext(s + "Time")), heart_rate=int(heart) if heart else None))
    return text.encode(), {}, found


def gpx_text(creator, spaces, point, name="<name>Runde &amp; Tour</name>"):
    points = "\n".join(f'      <trkpt lat="{at(n)[1]}" lon="{at(n)[0]}">{point(n)}</trkpt>' for n in range(RECORDS))
    return (f'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<gpx version="1.1" creator="{creator}" xmlns="http://www.topografix.com/GPX/1/1"{spaces}>\n'
            f"  <metadata><name>meta</name></metadata><trk>{name}<trkseg>\n{points}\n</trkseg></trk></gpx>\n")


G = "{http://www.topografix.com/GPX/1/1}"


def gpx():
    text = gpx_text("StravaGPX", "", lambda n: f"<ele>{n}.5</ele><time>{clock(n)}Z</time>")
    found = [
        record("ride 7", p.get("lon"), p.get("lat"), millis(p.findtext(G + "time")), elevation=float(p.findtext(G + "ele")))
        for p in ET.fromstring(text.encode()).iter(G + "trkpt")
    ]
    return text.encode(), {"file": "ride 7.gpx"}, found


def gpx_garmin():
    def point(n):
        return (f"<ele>5</ele><time>{clock(n)}.000Z</time><extensions><ns3:TrackPointExtension><ns3:atemp>21.0</ns3:atemp><ns3:hr>{100 + n}</ns3:hr>"
                "</ns3:TrackPointExtension></extensions>")
    text = gpx_text("Garmin Connect", ' xmlns:ns3="http://www.garmin.com/xmlschemas/TrackPointExtension/v1"', point)
    tpx = "{http://www.garmin.com/xmlschemas/TrackPointExtension/v1}"
    found = [
        record(track.findtext(G + "name"), p.get("lon"), p.get("lat"), millis(p.findtext(G + "time")), heart_rate=int(p.find(f".//{tpx}hr").text))
        for track in ET.fromstring(text.encode()).iter(G + "trk")
        for p in track.iter(G + "trkpt")
    ]
    return text.encode(), {}, found


def gpx_osmand():
    def point(n):
        tag = "osmand:speed" if n % 2 else "speed"
        return f"<ele>5</ele><time>{clock(n)}Z</time><hdop>3</hdop><extensions><{tag}>{n / 4}</{tag}></extensions>"
    text = gpx_text("OsmAnd 4.6", ' xmlns:osmand="https://osmand.net"', point, name="")
    found = []
    for p in ET.fromstring(text.encode()).iter(G + "trkpt"):
        speed = p.find(f"{G}extensions")[0]
        found.append(record("2024-03-10_ü.gpx", p.get("lon"), p.get("lat"), millis(p.findtext(G + "time")), speed=float(speed.text)))
    return text.encode(), {"file": "2024-03-10_ü.gpx"}, found


def geojson():
    features = []
    for n in range(RECORDS):
        x, y = at(n)
        place = {"type": "Point", "coordinates": [float(x), 89.5 if n == 1 else float(y), 12.5]}
        if n % 5 == 4:
            place = {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}
        features.append({"type": "Feature", "id": f"way/{n}", "properties": {"name": None if n % 3 == 0 else f"Übung {n}"}, "geometry": place})
    text = json.dumps({"type": "FeatureCollection", "name": "x", "features": features}, indent=2, ensure_ascii=False)
    found = [
        record(f["id"], *f["geometry"]["coordinates"][:2], name=f["properties"]["name"])
        for f in json.loads(text)["features"]
        if f["geometry"]["type"] == "Point"
    ]
    return text.encode(), {}, found


K = "{http://www.opengis.net/kml/2.2}"


def kml():
    def mark(n):
        x, y = at(n)
        text = f"\n   {x},{y},0\n  " if n % 2 else f"{x},{y}"
        first = "<Data name='other'><value>no</value></Data>" if n % 3 else ""
        return (f"<Placemark><name><![CDATA[Café & {n}]]></name><TimeStamp><when>{clock(n)}Z</when></TimeStamp><ExtendedData>{first}"
                f"<Data name='kind'><value>k{n % 4}</value></Data></ExtendedData><Point><coordinates>{text}</coordinates></Point></Placemark>\n")
    half = RECORDS // 2
    text = ('<?xml version="1.0" encoding="UTF-16"?>\n<kml:kml xmlns:kml="http://www.opengis.net/kml/2.2">'.replace("kml:kml", "kml").replace("xmlns:kml", "xmlns") +
            "<Document><name>d</name>" + "".join(map(mark, range(half))) + "<Folder><name>f</name>" + "".join(map(mark, range(half, RECORDS))) + "</Folder></Document></kml>")
    found = []
    for p in ET.fromstring(text.encode("utf-16")).iter(K + "Placemark"):
        x, y = p.findtext(f"{K}Point/{K}coordinates").strip().split(",")[:2]
        kinds = [d.findtext(K + "value") for d in p.iter(K + "Data") if d.get("name") == "kind"]
        found.append(record(p.findtext(K + "name"), x, y, millis(p.findtext(f"{K}TimeStamp/{K}when")), kind=kinds[0]))
    return text.encode("utf-16"), {}, found


def kml_track():
    def track(name, mixed):
        whens = [f"<when>{clock(n)}+01:00</when>" for n in range(RECORDS)]
        points = [f"<gx:coord>{at(n)[0]} {at(n)[1]} {n}</gx:coord>" for n in range(RECORDS)]
        inner = "\n".join(w + p for w, p in zip(whens, points)) if mixed else "\n".join(whens + points)
        return f"<Placemark><name>{name}</name><gx:Track>{inner}</gx:Track></Placemark>"
    text = ('<kml xmlns="http://www.opengis.net/kml/2.2" xmlns:gx="http://www.google.com/kml/ext/2.2"><Document>' + track("a", True) + track("b", False) +
            "</Document></kml>")
    gx = "{http://www.google.com/kml/ext/2.2}"
    found = []
    for p in ET.fromstring(text).iter(K + "Placemark"):
        track = p.find(gx + "Track")
        for when, point in zip(track.iter(K + "when"), track.iter(gx + "coord"), strict=True):
            x, y, altitude = point.text.split()
            found.append(record(p.findtext(K + "name"), x, y, millis(when.text), altitude=float(altitude)))
    return text.encode(), {}, found


def osm():
    nodes = []
    for n in range(RECORDS):
        x, y = at(n)
        tags = [f'<tag k="name" v="Zum &quot;Löwen&quot; {n}"/>', '<tag k="amenity" v="pub"/>', '<tag k="addr:city" v="X"/>']
        tags = tags[n % 3:] + tags[: n % 2]
        nodes.append(f' <node id="{n}" visible="true" version="3" timestamp="{clock(n)}Z" lat="{y}" lon="{x}"' +
                     ("/>" if n % 4 == 0 else ">\n  " + "\n  ".join(tags) + "\n </node>"))
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6"><bounds minlat="1"/>' + "\n".join(nodes) + '<way id="1"><nd ref="1"/></way></osm>'
    found = []
    for node in ET.fromstring(text.encode()).iter("node"):
        tags = {}
        for tag in node.iter("tag"):
            tags.setdefault(tag.get("k"), tag.get("v"))
        found.append(record(node.get("id"), node.get("lon"), node.get("lat"), millis(node.get("timestamp")), name=tags.get("name"), amenity=tags.get("amenity")))
    return text.encode(), {}, found


def geonames():
    lines = []
    for n in range(RECORDS):
        x, y = at(n)
        lines.append("\t".join([str(2950000 + n), f'Bad "Q" {n}', "Bad", "", y, x, "P", "PPL", "DE", "", "02", "", "", "", str(n * 1000), "", "44", "Europe/Berlin", "2019-09-05"]))
    text = "\n".join(lines) + "\n"
    found = []
    for line in text.splitlines():
        columns = line.split("\t")
        found.append(record(columns[0], columns[5], columns[4], name=columns[1], population=int(columns[14])))
    return text.encode(), {}, found


SHAPES = {
    "ais-csv": ais_csv, "ais-json": ais_json, "aircraft": aircraft, "opensky": opensky, "gtfs-stops": gtfs_stops, "gtfs-vehicles": gtfs_vehicles,
    "siri": siri, "netex": netex, "datex": datex, "sumo": sumo, "fleet-csv": fleet_csv, "probes": probes, "owntracks": owntracks,
    "traccar": traccar, "overland": overland, "wigle": wigle, "tcx": tcx, "gpx": gpx, "gpx-garmin": gpx_garmin, "gpx-osmand": gpx_osmand,
    "geojson": geojson, "kml": kml, "kml-track": kml_track, "osm": osm, "geonames": geonames,
}
